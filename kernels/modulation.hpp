#pragma once

#include "core/tensor.hpp"

namespace shardproof {

/// Adaptive layer norm's two element-wise steps (Peebles & Xie 2023, adaLN-Zero). Tensors of one dtype, fp64,
/// fp32, bf16 or fp16; each element is computed in fp32 (fp64 for fp64) and rounded once. The [B, C] operands
/// apply to every token of their batch item. Input Error on other shapes or dtypes.

/// x · (1 + scale) + shift.
Tensor modulate(const Tensor& x_BSC, const Tensor& scale_BC, const Tensor& shift_BC);

/// residual + gate · x.
Tensor gate_residual(const Tensor& residual_BSC, const Tensor& gate_BC, const Tensor& x_BSC);

}  // namespace shardproof
