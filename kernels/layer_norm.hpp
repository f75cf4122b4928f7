#pragma once

#include "core/tensor.hpp"

#include <optional>

namespace shardproof {

/// (x - mean) / √(var + eps) over the last dim, with the biased variance (divided by C), as torch.nn.LayerNorm.
///
/// x [..., C] in fp64, fp32, bf16 or fp16; weight and bias [C] of x's dtype, absent = 1 and 0. Two passes: the
/// variance is taken from centred values, so a large common offset costs no digits. Statistics and arithmetic
/// in fp32 (fp64 for fp64), rounded once. Input Error on another dtype, a wrong shape, C = 0 or eps < 0.
Tensor layer_norm(const Tensor& x, double eps, const std::optional<Tensor>& weight = std::nullopt,
                  const std::optional<Tensor>& bias = std::nullopt);

}  // namespace shardproof
