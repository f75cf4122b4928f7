#include "comm/wire_cost.hpp"

#include "core/error.hpp"
#include "core/shard.hpp"

#include <algorithm>

namespace shardproof {

WireCost& WireCost::operator+=(const WireCost& other) {
  messages += other.messages;
  bytes += other.bytes;
  for (const auto& [name, operation] : other.by_op) {
    Operation& mine = by_op[name];
    mine.calls += operation.calls;
    mine.messages += operation.messages;
    mine.bytes += operation.bytes;
  }
  return *this;
}

WireCost operator*(const WireCost& cost, int64_t times) {
  WireCost result = cost;
  result.messages *= times;
  result.bytes *= times;
  for (auto& [name, operation] : result.by_op) operation = {operation.calls * times, operation.messages * times, operation.bytes * times};
  if (times == 0) result.by_op.clear();
  return result;
}

std::string WireCost::text() const {
  std::vector<std::string> parts;
  for (const auto& [name, operation] : by_op)
    parts.push_back(fmt::format("{} {}/{} in {} calls", name, operation.messages, operation.bytes, operation.calls));
  return fmt::format("{} messages, {} bytes ({})", messages, bytes, parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", ")));
}

namespace wire {
namespace {

/// One call that sends messages of these sizes (in elements); the empty ones are not sent.
WireCost sent(const char* operation, const std::vector<int64_t>& messages, int64_t element_bytes) {
  WireCost::Operation call{.calls = 1};
  for (const int64_t elements : messages) {
    if (elements < 0 || element_bytes < 1) fail_input("wire", "{} of {} elements of {} bytes", operation, elements, element_bytes);
    call.messages += elements > 0 ? 1 : 0;
    call.bytes += elements * element_bytes;
  }
  return {.messages = call.messages, .bytes = call.bytes, .by_op = {{operation, call}}};
}

/// Whether there is anyone to send to.
bool has_peers(int ranks, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) fail_input("wire", "rank {} of a group of {} does not exist", rank, ranks);
  return ranks > 1;
}

/// The same block to, or a block for, every peer.
WireCost to_each_peer(const char* operation, int64_t elements, int64_t element_bytes, int ranks, int rank) {
  if (!has_peers(ranks, rank)) return {};
  return sent(operation, std::vector<int64_t>(ranks - 1, elements), element_bytes);
}

}  // namespace

WireCost all_reduce(int64_t elements, int64_t element_bytes, int ranks, int rank) {
  if (!has_peers(ranks, rank)) return {};
  const std::vector<int64_t> chunks = uneven_sizes(elements, ranks);
  std::vector<int64_t> messages;
  for (int step = 0; step + 1 < ranks; ++step) {
    messages.push_back(chunks[(rank - step + ranks) % ranks]);
    messages.push_back(chunks[(rank + 1 - step + ranks) % ranks]);
  }
  return sent("all_reduce", messages, element_bytes);
}

WireCost all_gather(int64_t own_elements, int64_t element_bytes, int ranks, int rank) {
  return to_each_peer("all_gather", own_elements, element_bytes, ranks, rank);
}

WireCost all_gather_v(int64_t own_elements, int64_t element_bytes, int ranks, int rank) {
  return to_each_peer("all_gather_v", own_elements, element_bytes, ranks, rank);
}

WireCost reduce_scatter(int64_t elements, int64_t element_bytes, int ranks, int rank) {
  if (!has_peers(ranks, rank)) return {};
  return to_each_peer("reduce_scatter", even_share(elements, ranks, rank).size, element_bytes, ranks, rank);
}

WireCost all_to_all(int64_t elements, int64_t element_bytes, int ranks, int rank) {
  if (!has_peers(ranks, rank)) return {};
  return to_each_peer("all_to_all", even_share(elements, ranks, rank).size, element_bytes, ranks, rank);
}

WireCost all_to_all_v(const std::vector<int64_t>& send_counts, int64_t element_bytes, int rank) {
  if (!has_peers(static_cast<int>(send_counts.size()), rank)) return {};
  std::vector<int64_t> messages = send_counts;
  messages.erase(messages.begin() + rank);
  return sent("all_to_all_v", messages, element_bytes);
}

WireCost send_recv(int64_t elements, int64_t element_bytes, int ranks, int rank, int to) {
  if (!has_peers(ranks, rank)) return {};
  return sent("send_recv", to == rank ? std::vector<int64_t>{} : std::vector<int64_t>{elements}, element_bytes);
}

WireCost broadcast(int64_t elements, int64_t element_bytes, int ranks, int rank, int root) {
  if (!has_peers(ranks, rank)) return {};
  return sent("broadcast", std::vector<int64_t>(rank == root ? ranks - 1 : 0, elements), element_bytes);
}

WireCost exchange(int64_t values, int ranks, int rank) { return to_each_peer("exchange", values, sizeof(int64_t), ranks, rank); }

}  // namespace wire
}  // namespace shardproof
