#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Ring attention as in the paper: K and V travel round the ring, one send and receive a step, while the chunk at hand is
/// attended to. A rank holds at most two chunks, the one at hand and the one that arrives, where `ring` holds all N.
/// (Liu, Zaharia, Abbeel 2023)
const Strategy& ring_p2p();

}  // namespace shardproof
