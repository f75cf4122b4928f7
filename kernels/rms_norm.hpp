#pragma once

#include "core/tensor.hpp"

namespace shardproof {

/// x / √(mean(x²) + eps) · weight over the last dim (Zhang & Sennrich 2019; diffusers' RMSNorm).
///
/// x [..., C] in fp64, fp32, bf16 or fp16, weight [C] of x's dtype. Arithmetic in fp32 (fp64 for fp64), rounded
/// once. The mean is over the C elements given: a norm over heads that are sharded needs the global sum of
/// squares, which this does not do. Input Error on another dtype, a wrong shape, C = 0 or eps < 0.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

}  // namespace shardproof
