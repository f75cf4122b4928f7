#include "reference/flux1.hpp"

#include "core/error.hpp"
#include "reference/attention.hpp"
#include "reference/flow_match.hpp"

#include <cmath>

namespace shardproof::reference {
namespace {

Tensor layer_norm(const Tensor& x) {  // without affine parameters, eps 1e-6
  const Tensor centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-6).sqrt();
}

Tensor rms_norm(const Tensor& x, const Tensor& weight) { return x / (x.square().mean(-1, true) + 1e-6).sqrt() * weight; }

Tensor per_token(const Tensor& vector_BC) { return vector_BC.unsqueeze(1); }

Tensor modulate(const Tensor& x, const Tensor& scale, const Tensor& shift) { return x * (1 + per_token(scale)) + per_token(shift); }

/// FLUX.1 keeps half precision finite; every other dtype has the range.
Tensor finite_in_half(const Tensor& x) { return x.scalar_type() == at::kHalf ? x.clamp(-65504, 65504) : x; }

/// (a, b) -> (-b, a) for each pair of neighbouring features.
Tensor rotated_pairs(const Tensor& x) {
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

Tensor apply_rope(const Tensor& x_BSHD, const Tensor& cos_SD, const Tensor& sin_SD) {
  const Tensor x = x_BSHD.to(cos_SD.scalar_type());
  return (x * cos_SD.unsqueeze(1) + rotated_pairs(x) * sin_SD.unsqueeze(1)).to(x_BSHD.scalar_type());
}

Tensor timestep_embedding(const Tensor& t_B) {  // 256 wide: cosines, then sines
  const auto wide = t_B.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor frequencies = at::exp(at::arange(128, wide) * (-std::log(10000.0) / 128));
  const Tensor angles = t_B.to(wide).unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, 1).to(t_B.scalar_type());
}

std::optional<Tensor> guidance_of(const NamedTensors& in) {
  return in.count("guidance") ? std::optional(in.at("guidance")) : std::nullopt;
}

}  // namespace

Flux1::Flux1(Flux1Config config, NamedTensors weights) : config_(config), weights_(std::move(weights)) {}

const Tensor& Flux1::weight(const std::string& name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) fail_input("reference", "parameter {} is missing", name);
  return found->second;
}

Tensor Flux1::linear(const std::string& name, const Tensor& x) const {
  return at::linear(x, weight(name + ".weight"), weight(name + ".bias"));
}

Tensor Flux1::two_linears(const std::string& name, const Tensor& x) const {
  return linear(name + ".linear_2", at::silu(linear(name + ".linear_1", x)));
}

Tensor Flux1::feed_forward(const std::string& name, const Tensor& x) const {
  return linear(name + ".net.2", at::gelu(linear(name + ".net.0.proj", x), "tanh"));
}

Tensor Flux1::heads_of(const std::string& linear_name, const std::string& norm_name, const Tensor& x) const {
  const Tensor heads = linear(linear_name, x).unflatten(-1, {config_.heads, config_.head_dim});
  return norm_name.empty() ? heads : rms_norm(heads, weight(norm_name + ".weight"));
}

Tensor Flux1::time_text_embed(const Tensor& timestep, const std::optional<Tensor>& guidance, const Tensor& pooled) const {
  Tensor temb = two_linears("time_text_embed.timestep_embedder", timestep_embedding(timestep * 1000));
  if (guidance) temb = temb + two_linears("time_text_embed.guidance_embedder", timestep_embedding(*guidance * 1000));
  return temb + two_linears("time_text_embed.text_embedder", pooled);
}

Flux1::Rope Flux1::rope(const Tensor& ids) const {
  std::vector<Tensor> angles;
  for (int64_t axis = 0; axis < 3; ++axis) {
    const int64_t dim = config_.axes_dims_rope[axis];
    const Tensor frequencies = at::pow(10000.0, at::arange(0, dim, 2, at::kDouble) / -static_cast<double>(dim));
    angles.push_back(at::outer(ids.select(1, axis).to(at::kDouble), frequencies).repeat_interleave(2, 1));
  }
  const Tensor all = at::cat(angles, 1);
  // Rotations are applied in at least single precision.
  const auto wide = weights_.begin()->second.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {all.cos().to(wide), all.sin().to(wide)};
}

Flux1::Streams Flux1::double_block(const std::string& name, Streams x, const Tensor& temb, const Rope& rope, const KeyMask& mask) const {
  const auto image_mod = linear(name + ".norm1.linear", at::silu(temb)).chunk(6, -1);
  const auto text_mod = linear(name + ".norm1_context.linear", at::silu(temb)).chunk(6, -1);
  enum { shift_attn, scale_attn, gate_attn, shift_mlp, scale_mlp, gate_mlp };

  const Tensor image = modulate(layer_norm(x.image_BSC), image_mod[scale_attn], image_mod[shift_attn]);
  const Tensor text = modulate(layer_norm(x.text_BTC), text_mod[scale_attn], text_mod[shift_attn]);

  const std::string a = name + ".attn";
  const Tensor q = at::cat({heads_of(a + ".add_q_proj", a + ".norm_added_q", text), heads_of(a + ".to_q", a + ".norm_q", image)}, 1);
  const Tensor k = at::cat({heads_of(a + ".add_k_proj", a + ".norm_added_k", text), heads_of(a + ".to_k", a + ".norm_k", image)}, 1);
  const Tensor v = at::cat({heads_of(a + ".add_v_proj", "", text), heads_of(a + ".to_v", "", image)}, 1);
  const Tensor joint = attention(apply_rope(q, rope.cos_SD, rope.sin_SD), apply_rope(k, rope.cos_SD, rope.sin_SD), v, mask).flatten(2);
  const int64_t text_tokens = text.size(1);

  x.image_BSC = x.image_BSC + per_token(image_mod[gate_attn]) * linear(a + ".to_out.0", joint.slice(1, text_tokens));
  x.text_BTC = x.text_BTC + per_token(text_mod[gate_attn]) * linear(a + ".to_add_out", joint.slice(1, 0, text_tokens));

  const Tensor image_mlp = modulate(layer_norm(x.image_BSC), image_mod[scale_mlp], image_mod[shift_mlp]);
  const Tensor text_mlp = modulate(layer_norm(x.text_BTC), text_mod[scale_mlp], text_mod[shift_mlp]);
  x.image_BSC = x.image_BSC + per_token(image_mod[gate_mlp]) * feed_forward(name + ".ff", image_mlp);
  x.text_BTC = x.text_BTC + per_token(text_mod[gate_mlp]) * feed_forward(name + ".ff_context", text_mlp);
  return {x.image_BSC, finite_in_half(x.text_BTC)};
}

Flux1::Streams Flux1::single_block(const std::string& name, Streams x, const Tensor& temb, const Rope& rope, const KeyMask& mask) const {
  const auto mod = linear(name + ".norm.linear", at::silu(temb)).chunk(3, -1);
  enum { shift, scale, gate };
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint), mod[scale], mod[shift]);

  const std::string a = name + ".attn";
  const Tensor q = apply_rope(heads_of(a + ".to_q", a + ".norm_q", normed), rope.cos_SD, rope.sin_SD);
  const Tensor k = apply_rope(heads_of(a + ".to_k", a + ".norm_k", normed), rope.cos_SD, rope.sin_SD);
  const Tensor attended = attention(q, k, heads_of(a + ".to_v", "", normed), mask).flatten(2);
  const Tensor mlp = at::gelu(linear(name + ".proj_mlp", normed), "tanh");

  const Tensor out = finite_in_half(joint + per_token(mod[gate]) * linear(name + ".proj_out", at::cat({attended, mlp}, 2)));
  const int64_t text_tokens = x.text_BTC.size(1);
  return {out.slice(1, text_tokens), out.slice(1, 0, text_tokens)};
}

Tensor Flux1::forward(const NamedTensors& inputs) const {
  Streams x{linear("x_embedder", inputs.at("hidden_states")), linear("context_embedder", inputs.at("encoder_hidden_states"))};
  const Tensor temb = time_text_embed(inputs.at("timestep"), guidance_of(inputs), inputs.at("pooled_projections"));
  const Rope rotation = rope(at::cat({inputs.at("txt_ids"), inputs.at("img_ids")}));
  const KeyMask mask = joint_key_mask(inputs);
  for (int64_t i = 0; i < config_.num_layers; ++i) x = double_block(fmt::format("transformer_blocks.{}", i), x, temb, rotation, mask);
  for (int64_t i = 0; i < config_.num_single_layers; ++i)
    x = single_block(fmt::format("single_transformer_blocks.{}", i), x, temb, rotation, mask);
  const auto mod = linear("norm_out.linear", at::silu(temb)).chunk(2, -1);  // scale, shift
  return linear("proj_out", modulate(layer_norm(x.image_BSC), mod[0], mod[1]));
}

Tensor Flux1::denoise(const NamedTensors& inputs, int64_t steps) const {
  NamedTensors now = inputs;
  Tensor& latents = now.at("hidden_states");
  const auto dtype = latents.scalar_type();
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const auto sigmas = flow_match_sigmas(steps, latents.size(1));
  for (int64_t i = 0; i < steps; ++i) {
    now["timestep"] = at::full_like(inputs.at("timestep"), sigmas[i]);
    latents = (latents.to(wide) + (sigmas[i + 1] - sigmas[i]) * forward(now).to(wide)).to(dtype);
  }
  return latents;
}

NamedTensors Flux1::run_module(const std::string& name, const NamedTensors& in) const {
  if (name.starts_with("transformer_blocks.") && name.find('.', 19) == name.npos) {
    const auto out = double_block(name, {in.at("image"), in.at("text")}, in.at("temb"), rope(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (name.starts_with("single_transformer_blocks.") && name.find('.', 26) == name.npos) {
    const auto out = single_block(name, {in.at("image"), in.at("text")}, in.at("temb"), rope(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (name == "time_text_embed") {
    return {{"temb", time_text_embed(in.at("timestep"), guidance_of(in), in.at("pooled"))}};
  }
  if (name.ends_with(".attn")) return {{"out", attention(in.at("q"), in.at("k"), in.at("v"), given_key_mask(in))}};
  return {{"out", linear(name, in.at("x"))}};
}

}  // namespace shardproof::reference
