#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Ring attention in the form of the diffusers guide: tokens are sharded, K and V are gathered from the ring in one
/// all-gather, and the chunks are attended to one after the other, own chunk first, each partial result merged by its
/// log-sum-exp. Partials stay in the accumulation dtype. (Liu, Zaharia, Abbeel 2023)
const Strategy& ring();

}  // namespace shardproof
