#include "comm/local.hpp"

#include "comm/collective_call.hpp"
#include "comm/fiber_scheduler.hpp"
#include "core/error.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace shardproof {
namespace {

struct Group;

/// What one rank brings to a collective and takes from it. It lives on the rank's stack while the rank waits,
/// so every buffer survives until all ranks have been served.
struct Ticket {
  CollectiveCall call{};
  Tensor in{};
  std::vector<Tensor> out{};
  std::vector<int64_t> values{};
  std::vector<std::vector<int64_t>> all_values{};
  int key = 0;
  std::shared_ptr<Group> child{};
  int child_rank = 0;
};
using Tickets = std::span<Ticket* const>;

/// The ranks of a group and who of them has arrived at its next collective.
struct Group {
  std::string name;
  std::vector<int> members;  ///< world ranks, in group order
  std::vector<Ticket*> tickets;
  size_t arrived = 0;

  Group(std::string group_name, std::vector<int> world_ranks)
      : name(std::move(group_name)), members(std::move(world_ranks)), tickets(members.size(), nullptr) {}
};

// The transfers: run once a collective, by the rank that arrived last, for all ranks. Sums go in rank order, in
// blocks that stay in cache, so that each input is read from memory once.

/// Below ATen's grain of 32768 elements: a block is one thread's work, without an OpenMP region for each.
constexpr int64_t block_elements = 16384;

/// Both are contiguous, of one size and dtype. On the host memcpy is about twice as fast as ATen's copy_ where
/// tensors are larger than the cache.
void copy_bytes(const Tensor& to, const Tensor& from) {
  if (!to.is_cpu()) {
    to.copy_(from);
  } else if (to.numel() > 0) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  }
}

void combine(Tensor& into, const Tensor& from, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: into.add_(from); break;
    case Reduction::max: at::maximum_out(into, into, from); break;
    case Reduction::min: at::minimum_out(into, into, from); break;
  }
}

template <class Work>
void for_blocks(const Tensor& flat, Work work) {
  for (int64_t begin = 0; begin < flat.numel(); begin += block_elements)
    work(begin, std::min(block_elements, flat.numel() - begin));
}

void move_all_reduce(Tickets tickets) {
  std::vector<Tensor> flat;
  for (const Ticket* ticket : tickets) flat.push_back(ticket->in.view(-1));
  for_blocks(flat.front(), [&](int64_t begin, int64_t size) {
    Tensor total = flat.front().narrow(0, begin, size);
    for (size_t i = 1; i < flat.size(); ++i) combine(total, flat[i].narrow(0, begin, size), *tickets[i]->call.reduction);
    for (size_t i = 1; i < flat.size(); ++i) copy_bytes(flat[i].narrow(0, begin, size), total);
  });
}

void move_all_gather(Tickets tickets) {
  for (Ticket* to : tickets)
    for (size_t i = 0; i < tickets.size(); ++i) copy_bytes(to->out.front()[i], tickets[i]->in);
}

void move_all_gather_v(Tickets tickets) {
  for (Ticket* to : tickets)
    for (size_t i = 0; i < tickets.size(); ++i) copy_bytes(to->out[i], tickets[i]->in);
}

void move_reduce_scatter(Tickets tickets) {
  for (size_t rank = 0; rank < tickets.size(); ++rank) {
    const Tensor out = tickets[rank]->out.front().view(-1);
    for_blocks(out, [&](int64_t begin, int64_t size) {
      Tensor total = out.narrow(0, begin, size);
      const auto block_of = [&](size_t i) { return tickets[i]->in[rank].view(-1).narrow(0, begin, size); };
      copy_bytes(total, block_of(0));
      for (size_t i = 1; i < tickets.size(); ++i) combine(total, block_of(i), Reduction::sum);
    });
  }
}

void move_all_to_all(Tickets tickets) {
  for (size_t to = 0; to < tickets.size(); ++to)
    for (size_t from = 0; from < tickets.size(); ++from) copy_bytes(tickets[to]->out.front()[from], tickets[from]->in[to]);
}

void move_all_to_all_v(Tickets tickets) {
  std::vector<int64_t> read(tickets.size(), 0);  // by sender: how far its input has been handed out
  for (size_t to = 0; to < tickets.size(); ++to) {
    int64_t written = 0;
    for (size_t from = 0; from < tickets.size(); ++from) {
      const int64_t count = tickets[from]->call.send[to];
      copy_bytes(tickets[to]->out.front().narrow(0, written, count), tickets[from]->in.narrow(0, read[from], count));
      written += count;
      read[from] += count;
    }
  }
}

void move_send_recv(Tickets tickets) {
  for (Ticket* to : tickets) copy_bytes(to->out.front(), tickets[to->call.from]->in);
}

void move_broadcast(Tickets tickets) {
  const int root = tickets.front()->call.root;
  for (size_t i = 0; i < tickets.size(); ++i)
    if (static_cast<int>(i) != root) copy_bytes(tickets[i]->in, tickets[root]->in);
}

void move_nothing(Tickets) {}

void move_exchange(Tickets tickets) {
  for (Ticket* to : tickets)
    for (const Ticket* from : tickets) to->all_values.push_back(from->values);
}

/// Groups by color; within one, by key, then by rank.
void move_split(Tickets tickets, const Group& parent) {
  std::map<int, std::vector<size_t>> by_color;
  for (size_t i = 0; i < tickets.size(); ++i)
    if (tickets[i]->call.color >= 0) by_color[tickets[i]->call.color].push_back(i);
  for (auto& [color, ranks] : by_color) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return tickets[a]->key < tickets[b]->key; });
    std::vector<int> members;
    for (const size_t rank : ranks) members.push_back(parent.members[rank]);
    const auto child = std::make_shared<Group>(tickets[ranks.front()]->call.label, std::move(members));
    for (size_t i = 0; i < ranks.size(); ++i) {
      tickets[ranks[i]]->child = child;
      tickets[ranks[i]]->child_rank = static_cast<int>(i);
    }
  }
}

std::string position_text(const Group& group, const CollectiveCall& call) {
  return fmt::format("{} in group {} (ranks {})", call.text(), group.name, fmt::join(group.members, ", "));
}

Error mismatch(const Group& group) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < group.members.size(); ++i)
    texts.push_back(fmt::format("rank {}: {}", group.members[i], group.tickets[i]->call.text()));
  return Error(Fault::runtime, "comm",
               fmt::format("mismatched collectives in group {}: {}", group.name, fmt::join(texts, "; ")));
}

CollectiveCall call(Collective operation, const Tensor& tensor) {
  CollectiveCall result;
  result.operation = operation;
  result.tensor = tensor;
  return result;
}

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<FiberScheduler> scheduler, std::shared_ptr<Group> group, int rank)
      : Communicator(rank, static_cast<int>(group->members.size()), group->name),
        scheduler_(std::move(scheduler)),
        group_(std::move(group)) {}

 private:
  /// Waits until all ranks of the group are here; the last one checks the calls and moves the data for all.
  template <class Transfer>
  void meet(Ticket& ticket, Transfer transfer);

  std::unique_ptr<Communicator> do_split(int color, int key, const std::string& label) override;
  void do_all_reduce(Tensor& in_place, Reduction reduction) override;
  Tensor do_all_gather(const Tensor& tensor) override;
  std::vector<Tensor> do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) override;
  Tensor do_reduce_scatter(const Tensor& tensor) override;
  Tensor do_all_to_all(const Tensor& tensor) override;
  Tensor do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts,
                         const std::vector<int64_t>& recv_counts) override;
  Tensor do_send_recv(const Tensor& send, int to, int from) override;
  void do_broadcast(Tensor& in_place, int root) override;
  void do_barrier() override;
  std::vector<std::vector<int64_t>> do_exchange(const std::vector<int64_t>& values) override;

  std::shared_ptr<FiberScheduler> scheduler_;
  std::shared_ptr<Group> group_;
  int64_t sequence_ = 0;
};

template <class Transfer>
void LocalCommunicator::meet(Ticket& ticket, Transfer transfer) {
  const int world_rank = group_->members[rank()];
  if (scheduler_->current() != world_rank)
    fail_runtime("comm", "{} of rank {} in group {} called by rank {} (-1: outside the run)", collective_name(ticket.call.operation),
                 world_rank, group_->name, scheduler_->current());
  scheduler_->enter();
  ticket.call.sequence = sequence_++;
  group_->tickets[rank()] = &ticket;
  if (++group_->arrived < group_->members.size()) {
    const FiberScheduler::Position position = [&] { return position_text(*group_, ticket.call); };
    scheduler_->wait(position);
  } else {
    std::vector<const CollectiveCall*> calls;
    for (const Ticket* arrived : group_->tickets) calls.push_back(&arrived->call);
    if (!calls_match(calls)) scheduler_->fail(std::make_exception_ptr(mismatch(*group_)));
    transfer(Tickets(group_->tickets));
    scheduler_->align_clocks(group_->members);
    group_->arrived = 0;
    for (const int member : group_->members) scheduler_->wake(member);
  }
  scheduler_->leave();
}

std::unique_ptr<Communicator> LocalCommunicator::do_split(int color, int key, const std::string& label) {
  Ticket ticket{.call = {.operation = Collective::split, .color = color, .label = label}, .key = key};
  meet(ticket, [this](Tickets tickets) { move_split(tickets, *group_); });
  if (!ticket.child) return nullptr;
  return std::make_unique<LocalCommunicator>(scheduler_, ticket.child, ticket.child_rank);
}

void LocalCommunicator::do_all_reduce(Tensor& in_place, Reduction reduction) {
  Ticket ticket{.call = call(Collective::all_reduce, in_place), .in = in_place};
  ticket.call.reduction = reduction;
  meet(ticket, move_all_reduce);
}

Tensor LocalCommunicator::do_all_gather(const Tensor& tensor) {
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape.insert(shape.begin(), size());
  Ticket ticket{.call = call(Collective::all_gather, tensor), .in = tensor, .out = {at::empty(shape, tensor.options())}};
  meet(ticket, move_all_gather);
  return ticket.out.front();
}

std::vector<Tensor> LocalCommunicator::do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) {
  Ticket ticket{.call = call(Collective::all_gather_v, tensor), .in = tensor};
  ticket.call.sizes = dim0_sizes;
  for (const int64_t rows : dim0_sizes) {
    std::vector<int64_t> shape = tensor.sizes().vec();
    shape.front() = rows;
    ticket.out.push_back(at::empty(shape, tensor.options()));
  }
  meet(ticket, move_all_gather_v);
  return ticket.out;
}

Tensor LocalCommunicator::do_reduce_scatter(const Tensor& tensor) {
  Ticket ticket{.call = call(Collective::reduce_scatter, tensor),
                .in = tensor,
                .out = {at::empty(tensor.sizes().slice(1), tensor.options())}};
  meet(ticket, move_reduce_scatter);
  return ticket.out.front();
}

Tensor LocalCommunicator::do_all_to_all(const Tensor& tensor) {
  Ticket ticket{.call = call(Collective::all_to_all, tensor), .in = tensor, .out = {at::empty_like(tensor)}};
  meet(ticket, move_all_to_all);
  return ticket.out.front();
}

Tensor LocalCommunicator::do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts,
                                          const std::vector<int64_t>& recv_counts) {
  int64_t received = 0;
  for (const int64_t count : recv_counts) received += count;
  Ticket ticket{.call = call(Collective::all_to_all_v, flat), .in = flat, .out = {at::empty({received}, flat.options())}};
  ticket.call.send = send_counts;
  ticket.call.recv = recv_counts;
  meet(ticket, move_all_to_all_v);
  return ticket.out.front();
}

Tensor LocalCommunicator::do_send_recv(const Tensor& send, int to, int from) {
  Ticket ticket{.call = call(Collective::send_recv, send), .in = send, .out = {at::empty_like(send)}};
  ticket.call.to = to;
  ticket.call.from = from;
  meet(ticket, move_send_recv);
  return ticket.out.front();
}

void LocalCommunicator::do_broadcast(Tensor& in_place, int root) {
  Ticket ticket{.call = call(Collective::broadcast, in_place), .in = in_place};
  ticket.call.root = root;
  meet(ticket, move_broadcast);
}

void LocalCommunicator::do_barrier() {
  Ticket ticket{.call = {.operation = Collective::barrier}};
  meet(ticket, move_nothing);
}

std::vector<std::vector<int64_t>> LocalCommunicator::do_exchange(const std::vector<int64_t>& values) {
  Ticket ticket{.call = {.operation = Collective::exchange}, .values = values};
  meet(ticket, move_exchange);
  return ticket.all_values;
}

/// Set while a run is on this thread: a run inside a rank would suspend ranks of the outer one.
thread_local FiberScheduler* running = nullptr;

struct RunningHere {
  explicit RunningHere(FiberScheduler& scheduler) {
    if (running) fail_input("comm", "run_local inside a rank of another run_local");
    running = &scheduler;
  }
  ~RunningHere() { running = nullptr; }
};

}  // namespace

double local_clock_s() {
  if (!running || running->current() < 0) fail_input("comm", "local_clock_s is asked for outside a rank of run_local");
  return running->clock(running->current());
}

LocalReport run_local(int ranks, const std::function<void(Communicator& world)>& body, const LocalOptions& options) {
  if (ranks < 1) fail_input("comm", "{} virtual ranks; at least 1 is needed", ranks);
  const c10::InferenceMode inference;
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const auto scheduler = std::make_shared<FiberScheduler>(ranks, options.stack_bytes, options.on_switch);
  const RunningHere here(*scheduler);
  const auto world = std::make_shared<Group>("world", members);
  scheduler->run([&](int rank) {
    LocalCommunicator communicator(scheduler, world, rank);
    body(communicator);
  });
  LocalReport report;
  for (int rank = 0; rank < ranks; ++rank) report.rank_clock_s.push_back(scheduler->clock(rank));
  report.critical_path_s = *std::max_element(report.rank_clock_s.begin(), report.rank_clock_s.end());
  return report;
}

}  // namespace shardproof
