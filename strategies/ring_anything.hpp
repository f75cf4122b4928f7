#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Ring attention for any number of tokens: lengths are exchanged over the CPU channel, every rank pads K and V to the
/// longest share, one all-gather, and each chunk is cut back to its true length before it is attended to. Key masks
/// travel the same way. (diffusers refuses masks here.)
const Strategy& ring_anything();

}  // namespace shardproof
