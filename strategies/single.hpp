#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// One device: the baseline that every other strategy is compared with.
const Strategy& single();

}  // namespace shardproof
