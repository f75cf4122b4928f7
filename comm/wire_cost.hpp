#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardproof {

/// What one rank sends: predicted from shapes by strategies, counted from calls by RecordingCommunicator.
struct WireCost {
  struct Operation {
    int64_t calls = 0;
    int64_t messages = 0;
    int64_t bytes = 0;
    friend bool operator==(const Operation&, const Operation&) = default;
  };

  int64_t messages = 0;
  int64_t bytes = 0;
  std::map<std::string, Operation> by_op;  ///< "all_reduce", "exchange", …

  WireCost& operator+=(const WireCost& other);
  friend WireCost operator+(WireCost a, const WireCost& b) { return a += b; }
  friend WireCost operator*(const WireCost& cost, int64_t times);
  friend bool operator==(const WireCost&, const WireCost&) = default;

  /// "12 messages, 3456 bytes (all_to_all 12/3456 in 4 calls)", operations by name.
  std::string text() const;
};

/// The cost of one call for `rank` of a group of `ranks` (N). Common rules: a group of one costs nothing and
/// leaves no entry; what a rank keeps for itself is not sent; an empty message is not sent; barriers and splits
/// cost nothing. Sizes are in elements of `element_bytes`; e is element_bytes. Input Error on a rank outside
/// the group or a negative size.
namespace wire {

/// A ring over the chunks c of uneven_sizes(elements, N). Reduce-scatter: in step s = 0 … N-2, rank r sends
/// chunk r - s, i.e. every chunk but r + 1. All-gather: it sends chunk r + 1 - s, i.e. every chunk but r + 2.
/// Bytes: (2·elements - c[(r+1) % N] - c[(r+2) % N])·e, which is 2·(N-1)/N·elements·e for an even cut, in
/// 2·(N-1) messages. (Patarasu & Yuan 2009, as NCCL and gloo send it.)
WireCost all_reduce(int64_t elements, int64_t element_bytes, int ranks, int rank);

/// The own block to each of N-1 peers: (N-1)·own_elements·e.
WireCost all_gather(int64_t own_elements, int64_t element_bytes, int ranks, int rank);

/// As all_gather, with this rank's own size.
WireCost all_gather_v(int64_t own_elements, int64_t element_bytes, int ranks, int rank);

/// `elements` of the whole input [N, ...]: N-1 chunks of elements / N.
WireCost reduce_scatter(int64_t elements, int64_t element_bytes, int ranks, int rank);

/// `elements` of the whole input [N, ...]: all rows but the own one, (N-1)/N·elements·e.
WireCost all_to_all(int64_t elements, int64_t element_bytes, int ranks, int rank);

/// N is the number of counts: all counts but the own one.
WireCost all_to_all_v(const std::vector<int64_t>& send_counts, int64_t element_bytes, int rank);

/// elements·e in one message; nothing when `to` is `rank`.
WireCost send_recv(int64_t elements, int64_t element_bytes, int ranks, int rank, int to);

/// Counted at the root as (N-1)·elements·e in N-1 messages; nothing elsewhere.
WireCost broadcast(int64_t elements, int64_t element_bytes, int ranks, int rank, int root);

/// `values` of 8 bytes to each of N-1 peers.
WireCost exchange(int64_t values, int ranks, int rank);

}  // namespace wire
}  // namespace shardproof
