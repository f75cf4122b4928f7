#pragma once

#include <ATen/ATen.h>

#include <fmt/format.h>

#include <string>

namespace shardproof {

/// Every tensor is LibTorch's: its allocator owns the memory, kernels open it without a copy.
using Tensor = at::Tensor;

/// "[2, 48, 64]", for error messages.
inline std::string shape_text(at::IntArrayRef shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

}  // namespace shardproof
