#pragma once

#include "core/tensor.hpp"

#include <optional>

namespace shardproof {

/// x Wᵀ + b. x [..., I], weight [O, I], bias [O], all of one dtype; returns [..., O].
///
/// ATen's GEMM (MKL or oneDNN): its result for a row may depend on how many rows there are, in the last bits.
/// Call it as shardproof::linear: at::linear is found by argument too. Input Error that gives the shapes or dtypes that do not fit.
Tensor linear(const Tensor& x, const Tensor& weight_OI, const std::optional<Tensor>& bias_O);

}  // namespace shardproof
