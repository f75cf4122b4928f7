#pragma once

#include "comm/communicator.hpp"
#include "core/tensor.hpp"

namespace shardproof {

/// RMS norm over features that are sharded over the tp axis, as a norm across heads after a column-parallel projection needs
/// it: x / sqrt(Σ x² / width + eps) · weight, where the sum is taken over all ranks and `width` is the whole one. (A norm over
/// head_dim needs none of this: each rank owns whole heads.)
/// x [..., C / N] and weight [C / N] are this rank's; the sum is reduced in fp32 (fp64 for fp64), one value a token.
/// Input Error when the weight does not have x's features or `width` is not theirs times the ranks.
Tensor rms_norm_across(const Tensor& x, const Tensor& weight, double eps, int64_t width, Communicator& tp);

}  // namespace shardproof
