#pragma once

#include "core/tensor.hpp"

namespace shardproof {

/// Element-wise, any shape, fp64, fp32, bf16 or fp16; computed in fp32 (fp64 for fp64) and rounded once. Input
/// Error on another dtype.

/// GELU's tanh form, 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel 2016), evaluated as
/// x · sigmoid(2 √(2/π) (x + 0.044715 x³)): the same function, without the cancellation of 1 + tanh near -1.
Tensor gelu_tanh(const Tensor& x);

/// x · sigmoid(x). Call it as shardproof::silu: at::silu is found by argument too.
Tensor silu(const Tensor& x);

}  // namespace shardproof
