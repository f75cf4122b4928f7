#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// DeepSpeed-Ulysses: tokens are sharded outside attention, heads inside it. Each of q, k, v goes through an all-to-all
/// that scatters heads and gathers tokens; the result goes through the inverse. (Jacobs et al. 2023)
const Strategy& ulysses();

}  // namespace shardproof
