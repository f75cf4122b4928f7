#pragma once

#include "core/named_tensors.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace shardproof::reference {

/// The plain ATen steps that the reference models are written in. Each computes in its inputs' dtype unless it says otherwise.
/// Shapes: B batch, S tokens, C features, H heads, D head dim.

/// (x - mean) / sqrt(variance + eps) over the last dim, without affine parameters.
Tensor layer_norm(const Tensor& x, double eps);
/// x / sqrt(mean(x²) + eps) * weight over the last dim.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

Tensor per_token(const Tensor& vector_BC);
/// x * (1 + scale) + shift, the same for every token.
Tensor modulate(const Tensor& x_BSC, const Tensor& scale_BC, const Tensor& shift_BC);

/// The models keep half precision finite between blocks; every other dtype has the range.
Tensor finite_in_half(const Tensor& x);

/// fp64 for fp64, otherwise fp32: what rotations, sinusoids and scheduler steps are computed in.
at::ScalarType at_least_single(at::ScalarType dtype);

/// [B] → [B, channels]: cosines of t / 10000^(2j / channels), then sines; in t's dtype.
Tensor timestep_embedding(const Tensor& t_B, int64_t channels);

struct Rope {
  Tensor cos_SD, sin_SD;
};
/// Axis a turns its axes_dims[a] features, in neighbouring pairs, by ids[s, a] * theta^(-2j / axes_dims[a]). Angles in fp64.
Rope rope(const Tensor& ids_SA, at::IntArrayRef axes_dims, double theta, at::ScalarType dtype);
Tensor apply_rope(const Tensor& x_BSHD, const Rope& rope);

/// A model's parameters by diffusers' names. Unknown names: input Error.
class Weights {
 public:
  explicit Weights(NamedTensors tensors) : tensors_(std::move(tensors)) {}
  const Tensor& parameter(const std::string& name) const;
  at::ScalarType dtype() const { return tensors_.begin()->second.scalar_type(); }
  /// x Wᵀ + b; b where the Linear has one.
  Tensor linear(const std::string& name, const Tensor& x) const;
  /// `name`.linear_1, SiLU, `name`.linear_2.
  Tensor two_linears(const std::string& name, const Tensor& x) const;

 private:
  NamedTensors tensors_;
};

/// Whether `name` is "`list`.N": the block, not a module inside it.
bool is_block_of(const std::string& name, const std::string& list);

/// `hidden_states` after flow-match Euler steps with `velocity`; `timestep` is replaced by each sigma.
Tensor denoise(const std::function<Tensor(const NamedTensors&)>& velocity, const NamedTensors& inputs, int64_t steps);

}  // namespace shardproof::reference
