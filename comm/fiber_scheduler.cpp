#include "comm/fiber_scheduler.hpp"

#include "core/error.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <c10/util/Exception.h>
#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace shardproof {
namespace {

namespace context = boost::context;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Thrown through a rank's stack to end it; not a std::exception, so that bodies do not catch it by mistake.
struct Unwind {};

/// The C++ runtime keeps its stack of caught exceptions per thread: each fiber needs its own, or a `throw;`
/// after a switch would rethrow another rank's exception. Two words in the Itanium ABI.
struct CaughtExceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  static CaughtExceptions save() {
    CaughtExceptions saved;
    std::memcpy(&saved.caught, abi::__cxa_get_globals(), sizeof(void*));
    std::memcpy(&saved.uncaught, words() + sizeof(void*), sizeof(unsigned int));
    return saved;
  }
  void restore() const {
    std::memcpy(words(), &caught, sizeof(void*));
    std::memcpy(words() + sizeof(void*), &uncaught, sizeof(unsigned int));
  }
  static char* words() { return reinterpret_cast<char*>(abi::__cxa_get_globals()); }
};

/// Tells AddressSanitizer which stack runs. Without it any throw on a fiber aborts.
struct StackSwitch {
#if defined(__SANITIZE_ADDRESS__)
  static void leave(void** fake, const void* bottom, size_t size) { __sanitizer_start_switch_fiber(fake, bottom, size); }
  static void arrive(void* fake, const void** bottom, size_t* size) { __sanitizer_finish_switch_fiber(fake, bottom, size); }
#else
  static void leave(void**, const void*, size_t) {}
  static void arrive(void*, const void**, size_t*) {}
#endif
};

/// Hands Boost a stack we know the bounds of; Boost gives it back when the fiber has ended.
class KnownStack {
 public:
  KnownStack(size_t bytes, const void** bottom, size_t* size) : stack_(bytes), bottom_(bottom), size_(size) {}
  context::stack_context allocate() {
    const context::stack_context stack = stack_.allocate();
    *bottom_ = static_cast<const char*>(stack.sp) - stack.size;
    *size_ = stack.size;
    return stack;
  }
  void deallocate(context::stack_context& stack) { stack_.deallocate(stack); }

 private:
  context::protected_fixedsize_stack stack_;
  const void** bottom_;
  size_t* size_;
};

/// What a rank threw, taken apart so that more can be said after its message.
struct Cause {
  Fault fault = Fault::runtime;
  std::string subsystem, message;
};

Cause cause_of(const std::exception_ptr& failure, int rank) {
  Cause cause{Fault::runtime, fmt::format("rank {}", rank), "an exception of unknown type"};
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {  // "[subsystem] message"
    const std::string text = error.what();
    const size_t end = text.find("] ");
    cause = {error.fault(), text.substr(1, end - 1), text.substr(end + 2)};
  } catch (const c10::Error& error) {
    cause.message = error.what_without_backtrace();
  } catch (const std::exception& error) {
    cause.message = error.what();
  } catch (...) {
  }
  return cause;
}

}  // namespace

struct FiberScheduler::Fiber {
  State state = State::ready;
  bool entered = false;
  const Position* position = nullptr;  ///< on the waiting rank's own stack
  double clock_s = 0;
  std::optional<Clock::time_point> clock_since;
  context::fiber self;       ///< where to go on, while the rank does not run
  context::fiber scheduler;  ///< where to go back to, while it runs
  const void* bottom = nullptr;
  size_t size = 0;
  const void* scheduler_bottom = nullptr;
  size_t scheduler_size = 0;
};

FiberScheduler::FiberScheduler(int ranks, size_t stack_bytes, std::function<void(int)> on_switch)
    : stack_bytes_(stack_bytes), on_switch_(std::move(on_switch)) {
  for (int rank = 0; rank < ranks; ++rank) fibers_.push_back(std::make_unique<Fiber>());
}

FiberScheduler::~FiberScheduler() { unwind(); }

double FiberScheduler::clock(int rank) const {
  const Fiber& fiber = *fibers_.at(rank);
  return fiber.clock_s + (fiber.clock_since ? seconds_since(*fiber.clock_since) : 0);
}

void FiberScheduler::start(int rank, const std::function<void(int)>& body) {
  Fiber& fiber = *fibers_[rank];
  fiber.self = context::fiber(std::allocator_arg, KnownStack(stack_bytes_, &fiber.bottom, &fiber.size),
                              [this, rank, &fiber, &body](context::fiber&& scheduler) {
                                StackSwitch::arrive(nullptr, &fiber.scheduler_bottom, &fiber.scheduler_size);
                                CaughtExceptions{}.restore();
                                fiber.scheduler = std::move(scheduler);
                                body_of(rank, body);
                                fiber.state = State::ended;
                                StackSwitch::leave(nullptr, fiber.scheduler_bottom, fiber.scheduler_size);
                                return std::move(fiber.scheduler);
                              });
}

void FiberScheduler::body_of(int rank, const std::function<void(int)>& body) {
  if (unwinding_) return;  // the run failed before this rank's turn came
  fibers_[rank]->entered = true;
  resume_clock();
  try {
    body(rank);
  } catch (const Unwind&) {
  } catch (...) {
    if (!failure_) {
      failure_ = std::current_exception();
      thrower_ = rank;
    }
  }
  pause_clock();
}

void FiberScheduler::resume(int rank) {
  Fiber& fiber = *fibers_[rank];
  fiber.state = State::running;
  current_ = rank;
  if (on_switch_) on_switch_(rank);
  const CaughtExceptions mine = CaughtExceptions::save();
  void* fake = nullptr;
  StackSwitch::leave(&fake, fiber.bottom, fiber.size);
  fiber.self = std::move(fiber.self).resume();
  StackSwitch::arrive(fake, nullptr, nullptr);
  mine.restore();
  current_ = -1;
  if (on_switch_) on_switch_(-1);
}

void FiberScheduler::enter() {
  if (unwinding_ || failure_) throw Unwind{};  // the body caught the end of the run and went on
  pause_clock();
}

void FiberScheduler::wait(const Position& position) {
  Fiber& fiber = *fibers_.at(current_);
  fiber.state = State::waiting;
  fiber.position = &position;
  const CaughtExceptions mine = CaughtExceptions::save();
  void* fake = nullptr;
  StackSwitch::leave(&fake, fiber.scheduler_bottom, fiber.scheduler_size);
  fiber.scheduler = std::move(fiber.scheduler).resume();
  StackSwitch::arrive(fake, &fiber.scheduler_bottom, &fiber.scheduler_size);
  mine.restore();
  fiber.position = nullptr;
  if (unwinding_) throw Unwind{};
}

void FiberScheduler::wake(int rank) {
  Fiber& fiber = *fibers_.at(rank);
  if (fiber.state == State::waiting) fiber.state = State::ready;
}

void FiberScheduler::fail(std::exception_ptr error) {
  if (!failure_) failure_ = std::move(error);
  throw Unwind{};
}

void FiberScheduler::pause_clock() {
  Fiber& fiber = *fibers_.at(current_);
  if (fiber.clock_since) fiber.clock_s += seconds_since(*fiber.clock_since);
  fiber.clock_since.reset();
}

void FiberScheduler::leave() { resume_clock(); }

void FiberScheduler::resume_clock() { fibers_.at(current_)->clock_since = Clock::now(); }

void FiberScheduler::align_clocks(std::span<const int> ranks) {
  double latest = 0;
  for (const int rank : ranks) latest = std::max(latest, fibers_.at(rank)->clock_s);
  for (const int rank : ranks) fibers_.at(rank)->clock_s = latest;
}

bool FiberScheduler::step() {
  bool moved = false;
  for (int rank = 0; rank < std::ssize(fibers_) && !failure_; ++rank) {
    if (fibers_[rank]->state != State::ready) continue;
    resume(rank);
    moved = true;
  }
  return moved;
}

void FiberScheduler::unwind() {
  unwinding_ = true;
  // Each enter() and wait() now throws, so one resumption ends a rank, even if its body catches everything.
  for (int rank = 0; rank < std::ssize(fibers_); ++rank)
    if (fibers_[rank]->self) resume(rank);
}

void FiberScheduler::run(const std::function<void(int)>& body) {
  for (int rank = 0; rank < std::ssize(fibers_); ++rank) start(rank, body);
  while (step()) {
  }
  const std::exception_ptr outcome = verdict();  // before unwinding: positions lie on the ranks' stacks
  unwind();
  if (outcome) std::rethrow_exception(outcome);
}

std::exception_ptr FiberScheduler::verdict() const {
  const auto ended = [](const auto& fiber) { return fiber->state == State::ended; };
  if (thrower_) return thrown();
  if (failure_) return failure_;
  if (std::all_of(fibers_.begin(), fibers_.end(), ended)) return nullptr;
  return std::make_exception_ptr(Error(Fault::runtime, "comm", fmt::format("deadlock, no rank can go on: {}", positions())));
}

std::exception_ptr FiberScheduler::thrown() const {
  const Cause cause = cause_of(failure_, *thrower_);
  return std::make_exception_ptr(
      Error(cause.fault, cause.subsystem, fmt::format("{} (thrown by rank {}; {})", cause.message, *thrower_, positions())));
}

std::string FiberScheduler::positions() const {
  std::vector<std::string> texts;
  for (int rank = 0; rank < std::ssize(fibers_); ++rank) {
    const Fiber& fiber = *fibers_[rank];
    if (rank == thrower_) continue;
    std::string text = fiber.entered ? "between collectives" : "not started";
    if (fiber.state == State::ended) text = "ended";
    if (fiber.state == State::waiting) text = (*fiber.position)();
    texts.push_back(fmt::format("rank {}: {}", rank, text));
  }
  return texts.empty() ? "no other rank" : fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace shardproof
