#pragma once

#include "core/tensor.hpp"

#include <cstdint>

namespace shardproof {

/// [cos(t f_0), …, cos(t f_{h-1}) | sin(t f_0), …, sin(t f_{h-1})] with h = dim / 2 and f_j = exp(-ln(10000) j / h):
/// diffusers' get_timestep_embedding with flip_sin_to_cos=True and downscale_freq_shift=0.
///
/// t_B [B] of any floating or integer dtype; returns [B, dim] in `dtype`. Arithmetic in fp64 when t is fp64, else
/// in fp32, as diffusers does it. Input Error on t of another rank, an odd or non-positive dim, or another dtype.
Tensor timestep_embedding(const Tensor& t_B, int64_t dim, at::ScalarType dtype);

}  // namespace shardproof
