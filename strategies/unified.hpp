#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Unified sequence parallelism: ring × ulysses. All-to-all inside a ulysses group, ring attention between the groups, the
/// inverse all-to-all; ring rank and ulysses rank are the outer and inner coordinate. (Fang, Zhao 2024: USP)
const Strategy& unified();

/// The same of the two "anything" strategies: uneven lengths and any head count.
const Strategy& unified_anything();

}  // namespace shardproof
