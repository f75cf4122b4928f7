#pragma once

#include "core/tensor.hpp"

namespace shardproof {

/// Cosines and sines of rotary position embedding, [S, D] each; both elements of a pair hold the same value.
struct RopeTable {
  Tensor cos_SD;
  Tensor sin_SD;
};

/// FLUX's table over several position axes (diffusers FluxPosEmbed, get_1d_rotary_pos_embed with
/// repeat_interleave_real): axis a takes axes_dims[a] of the D = Σ axes_dims columns, and its pair j turns by
///
///     ids[s, a] · theta^(-2j / axes_dims[a])
///
/// ids_SA [S, A] of any dtype. Angles, cosines and sines are computed in fp64 and rounded once to `dtype` (fp32
/// or fp64): at position 64 an fp32 angle would already be off by 4e-6. Input Error on an odd axis size, a
/// wrong number of axes, theta ≤ 0 or another dtype.
RopeTable rope_table(const Tensor& ids_SA, at::IntArrayRef axes_dims, double theta, at::ScalarType dtype);

/// Turns interleaved pairs (x[2i], x[2i+1]) of each head:
///
///     out[2i]   = x[2i] · cos[2i]     - x[2i+1] · sin[2i]
///     out[2i+1] = x[2i+1] · cos[2i+1] + x[2i] · sin[2i+1]
///
/// x_BSHD [B, S, H, D], D even, fp64, fp32, bf16 or fp16; the same turn for every batch item and head.
/// Arithmetic in fp32 (fp64 for fp64), the table taken to that first; rounded once. Input Error on a shape or
/// dtype that does not fit the table.
Tensor apply_rope(const Tensor& x_BSHD, const RopeTable& table);

}  // namespace shardproof
