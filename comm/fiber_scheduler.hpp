#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardproof {

/// Runs ranks as fibers on the calling thread and keeps their clocks. Knows nothing of collectives: a rank
/// waits, another wakes it. Used by local.cpp only.
class FiberScheduler {
 public:
  /// Names what a waiting rank is doing; called only when a run fails.
  using Position = std::function<std::string()>;

  FiberScheduler(int ranks, size_t stack_bytes, std::function<void(int)> on_switch);
  ~FiberScheduler();  ///< unwinds every rank that has not ended

  /// Runs body(rank) on every rank, round robin, until all have ended. Throws as run_local documents.
  void run(const std::function<void(int)>& body);

  int current() const { return current_; }  ///< the rank that runs, or -1
  double clock(int rank) const;             ///< seconds so far: own work, moved forward by align_clocks

  // For the rank that runs, between enter() and leave(), where its clock stands still:
  void enter();
  void leave();
  void wait(const Position& position);  ///< until another rank wakes it
  void wake(int rank);
  [[noreturn]] void fail(std::exception_ptr error);  ///< ends the whole run with this error
  void align_clocks(std::span<const int> ranks);  ///< all to the latest of them

 private:
  struct Fiber;
  enum class State { ready, running, waiting, ended };

  void pause_clock();
  void resume_clock();
  void start(int rank, const std::function<void(int)>& body);
  void body_of(int rank, const std::function<void(int)>& body);
  void resume(int rank);
  void unwind();
  bool step();  ///< resumes every ready rank once; false if there was none
  std::exception_ptr verdict() const;  ///< what run() throws, or nullptr
  std::exception_ptr thrown() const;
  std::string positions() const;  ///< "rank 0: …; rank 1: …", without the thrower

  std::vector<std::unique_ptr<Fiber>> fibers_;
  size_t stack_bytes_;
  std::function<void(int)> on_switch_;
  int current_ = -1;
  bool unwinding_ = false;
  std::exception_ptr failure_;
  std::optional<int> thrower_;  ///< the rank whose own exception `failure_` is; none: the run's error
};

}  // namespace shardproof
