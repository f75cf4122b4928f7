#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Ulysses for any number of tokens and heads: lengths are exchanged over the CPU channel before each attention, the
/// all-to-alls carry uneven shares, and heads are dealt out whole, so that nothing is padded. (diffusers pads the heads
/// and refuses pads as large as a share.)
const Strategy& ulysses_anything();

}  // namespace shardproof
