#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Tensor parallelism by the model's shipped `_tp_plan`: column-parallel projections give every rank whole heads,
/// row-parallel ones are summed over the ranks; what the plan does not name is replicated. (Shoeybi et al. 2019)
const Strategy& tp();

}  // namespace shardproof
