#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Ring attention in the form of the diffusers guide: tokens are sharded, K and V are gathered from the ring in one
/// all-gather, and the chunks are attended to one after the other, own chunk first, each partial result merged by its
/// log-sum-exp. Partials stay in the accumulation dtype. (Liu, Zaharia, Abbeel 2023)
const Strategy& ring();

/// The same with diffusers' `convert_to_fp32` off: each chunk's result is rounded to the run's dtype before it is merged.
/// Its precision gate is wider (theory √2); its traffic is the same.
const Strategy& ring_unconverted();

}  // namespace shardproof
