#pragma once

#include "comm/communicator.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardproof {

enum class Collective {
  all_reduce,
  all_gather,
  all_gather_v,
  reduce_scatter,
  all_to_all,
  all_to_all_v,
  send_recv,
  broadcast,
  barrier,
  exchange,
  split,
};

std::string_view collective_name(Collective operation);

/// What one rank says it is calling: all that has to fit together with the other ranks of the group before
/// data may move. Plain data; fields that an operation does not use keep their defaults.
struct CollectiveCall {
  Collective operation = Collective::barrier;
  int64_t sequence = 0;             ///< number of the call among the group's, from 0
  std::optional<Reduction> reduction{};
  std::optional<Tensor> tensor{};   ///< for its dtype, shape and device only
  std::vector<int64_t> sizes{};     ///< all_gather_v
  std::vector<int64_t> send{}, recv{};  ///< all_to_all_v: counts, by rank
  int to = -1, from = -1;           ///< send_recv
  int root = -1;                    ///< broadcast
  int color = -1;                   ///< split
  std::string label{};              ///< split

  /// "all_reduce #3 sum fp32 [4]", "send_recv #0 bf16 [2, 8] to 1 from 3", …
  std::string text() const;
};

/// Whether one call from each rank of a group, in rank order, can happen together.
bool calls_match(std::span<const CollectiveCall* const> calls);

}  // namespace shardproof
