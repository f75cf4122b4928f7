#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Tensor parallelism by the model's shipped `_tp_plan`: column-parallel projections give every rank whole heads,
/// row-parallel ones are summed over the ranks; what the plan does not name is replicated. (Shoeybi et al. 2019)
const Strategy& tp();

/// The same by another plan than the model's own, as given: a Linear that a plan cuts wrongly runs until it breaks.
/// `plan` is by key; a key that matches no Linear is refused when a session is made.
std::unique_ptr<Strategy> tensor_parallel(std::map<std::string, Sharding> plan);

}  // namespace shardproof
