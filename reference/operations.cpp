#include "reference/operations.hpp"

#include "core/error.hpp"
#include "reference/flow_match.hpp"

#include <cmath>

namespace shardproof::reference {

Tensor layer_norm(const Tensor& x, double eps) {
  const Tensor centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + eps).sqrt();
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return x / (x.square().mean(-1, true) + eps).sqrt() * weight;
}

Tensor per_token(const Tensor& vector_BC) { return vector_BC.unsqueeze(1); }

Tensor modulate(const Tensor& x_BSC, const Tensor& scale_BC, const Tensor& shift_BC) {
  return x_BSC * (1 + per_token(scale_BC)) + per_token(shift_BC);
}

Tensor finite_in_half(const Tensor& x) { return x.scalar_type() == at::kHalf ? x.clamp(-65504, 65504) : x; }

at::ScalarType at_least_single(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

Tensor timestep_embedding(const Tensor& t_B, int64_t channels) {
  const auto wide = at_least_single(t_B.scalar_type());
  const int64_t half = channels / 2;
  const Tensor frequencies = at::exp(at::arange(half, wide) * (-std::log(10000.0) / static_cast<double>(half)));
  const Tensor angles = t_B.to(wide).unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, 1).to(t_B.scalar_type());
}

Rope rope(const Tensor& ids_SA, at::IntArrayRef axes_dims, double theta, at::ScalarType dtype) {
  std::vector<Tensor> angles;
  for (size_t axis = 0; axis < axes_dims.size(); ++axis) {
    const int64_t dim = axes_dims[axis];
    const Tensor frequencies = at::pow(theta, at::arange(0, dim, 2, at::kDouble) / -static_cast<double>(dim));
    angles.push_back(
        at::outer(ids_SA.select(1, static_cast<int64_t>(axis)).to(at::kDouble), frequencies).repeat_interleave(2, 1));
  }
  const Tensor all = at::cat(angles, 1);
  return {all.cos().to(dtype), all.sin().to(dtype)};
}

Tensor apply_rope(const Tensor& x_BSHD, const Rope& rope) {
  const Tensor x = x_BSHD.to(rope.cos_SD.scalar_type());
  const Tensor pairs = x.unflatten(-1, {-1, 2});  // (a, b) -> (-b, a)
  const Tensor turned = at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  return (x * rope.cos_SD.unsqueeze(1) + turned * rope.sin_SD.unsqueeze(1)).to(x_BSHD.scalar_type());
}

const Tensor& Weights::parameter(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail_input("reference", "parameter {} is missing", name);
  return found->second;
}

Tensor Weights::linear(const std::string& name, const Tensor& x) const {
  const auto bias = tensors_.find(name + ".bias");
  return bias == tensors_.end() ? at::linear(x, parameter(name + ".weight"))
                                : at::linear(x, parameter(name + ".weight"), bias->second);
}

Tensor Weights::two_linears(const std::string& name, const Tensor& x) const {
  return linear(name + ".linear_2", at::silu(linear(name + ".linear_1", x)));
}

bool is_block_of(const std::string& name, const std::string& list) {
  return name.starts_with(list + ".") && name.find('.', list.size() + 1) == name.npos;
}

Tensor denoise(const std::function<Tensor(const NamedTensors&)>& velocity, const NamedTensors& inputs, int64_t steps) {
  NamedTensors now = inputs;
  Tensor& latents = now.at("hidden_states");
  const auto dtype = latents.scalar_type(), wide = at_least_single(dtype);
  const auto sigmas = flow_match_sigmas(steps, latents.size(1));
  for (int64_t i = 0; i < steps; ++i) {
    now["timestep"] = at::full_like(inputs.at("timestep"), sigmas[i]);
    latents = (latents.to(wide) + (sigmas[i + 1] - sigmas[i]) * velocity(now).to(wide)).to(dtype);
  }
  return latents;
}

}  // namespace shardproof::reference
