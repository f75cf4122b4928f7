#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <string_view>

namespace shardproof {

/// Standard normal values that depend on (seed, name, index) alone: the same on every rank, machine and
/// thread count, and for every slice of the same tensor. fp64; shape as given.
Tensor seeded_normal(at::IntArrayRef shape, uint64_t seed, std::string_view name);

}  // namespace shardproof
