#include "reference/flux2.hpp"

#include "core/error.hpp"

namespace shardproof::reference {
namespace {

/// silu(gate) * up, from [gate ; up] along the features.
Tensor swiglu(const Tensor& x) {
  const int64_t half = x.size(-1) / 2;
  return at::silu(x.slice(-1, 0, half)) * x.slice(-1, half);
}

std::optional<Tensor> guidance_of(const NamedTensors& in) {
  return in.count("guidance") ? std::optional(in.at("guidance")) : std::nullopt;
}

}  // namespace

Flux2::Flux2(Flux2Config config, NamedTensors weights) : config_(config), weights_(std::move(weights)) {}

Tensor Flux2::feed_forward(const std::string& name, const Tensor& x) const {
  return weights_.linear(name + ".linear_out", swiglu(weights_.linear(name + ".linear_in", x)));
}

Tensor Flux2::heads_of(const Tensor& projected) const { return projected.unflatten(-1, {config_.heads, config_.head_dim}); }

Tensor Flux2::normed_heads(const Tensor& projected, const std::string& norm) const {
  return rms_norm(heads_of(projected), weights_.parameter(norm + ".weight"), config_.eps);
}

Tensor Flux2::time_guidance_embed(const Tensor& timestep, const std::optional<Tensor>& guidance) const {
  const auto sinusoid = [this](const Tensor& t) { return timestep_embedding(t * 1000, config_.timestep_channels); };
  const Tensor temb = weights_.two_linears("time_guidance_embed.timestep_embedder", sinusoid(timestep));
  if (!guidance) return temb;
  return temb + weights_.two_linears("time_guidance_embed.guidance_embedder", sinusoid(*guidance));
}

Tensor Flux2::shared_modulation(const std::string& name, const Tensor& temb) const {
  return weights_.linear(name + ".linear", at::silu(temb));
}

Rope Flux2::rotation(const Tensor& ids) const {
  return rope(ids, config_.axes_dims_rope, config_.rope_theta, at_least_single(weights_.dtype()));
}

Flux2::Streams Flux2::double_block(const std::string& name, Streams x, const Tensor& image_mod, const Tensor& text_mod,
                                   const Rope& rope, const KeyMask& mask) const {
  const auto i = image_mod.chunk(6, -1), t = text_mod.chunk(6, -1);
  enum { shift_attn, scale_attn, gate_attn, shift_mlp, scale_mlp, gate_mlp };
  const auto normed = [this](const Tensor& stream) { return layer_norm(stream, config_.eps); };

  const Tensor image = modulate(normed(x.image_BSC), i[scale_attn], i[shift_attn]);
  const Tensor text = modulate(normed(x.text_BTC), t[scale_attn], t[shift_attn]);

  const std::string a = name + ".attn.";
  const auto of = [&](const char* linear, const Tensor& stream) { return weights_.linear(a + linear, stream); };
  const Tensor q =
      at::cat({normed_heads(of("add_q_proj", text), a + "norm_added_q"), normed_heads(of("to_q", image), a + "norm_q")}, 1);
  const Tensor k =
      at::cat({normed_heads(of("add_k_proj", text), a + "norm_added_k"), normed_heads(of("to_k", image), a + "norm_k")}, 1);
  const Tensor v = at::cat({heads_of(of("add_v_proj", text)), heads_of(of("to_v", image))}, 1);
  const Tensor joint = attention(apply_rope(q, rope), apply_rope(k, rope), v, mask).flatten(2);
  const int64_t text_tokens = text.size(1);

  x.image_BSC = x.image_BSC + per_token(i[gate_attn]) * of("to_out.0", joint.slice(1, text_tokens));
  x.image_BSC = x.image_BSC +
                per_token(i[gate_mlp]) * feed_forward(name + ".ff", modulate(normed(x.image_BSC), i[scale_mlp], i[shift_mlp]));

  x.text_BTC = x.text_BTC + per_token(t[gate_attn]) * of("to_add_out", joint.slice(1, 0, text_tokens));
  x.text_BTC = x.text_BTC + per_token(t[gate_mlp]) *
                                feed_forward(name + ".ff_context", modulate(normed(x.text_BTC), t[scale_mlp], t[shift_mlp]));
  return {x.image_BSC, finite_in_half(x.text_BTC)};
}

Flux2::Streams Flux2::single_block(const std::string& name, const Streams& x, const Tensor& joint_mod, const Rope& rope,
                                   const KeyMask& mask) const {
  const auto mod = joint_mod.chunk(3, -1);
  enum { shift, scale, gate };
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint, config_.eps), mod[scale], mod[shift]);

  const std::string a = name + ".attn.";
  const int64_t h = config_.hidden(), mlp = config_.mlp_hidden();
  const auto fused = weights_.linear(a + "to_qkv_mlp_proj", normed).split_with_sizes({h, h, h, 2 * mlp}, -1);
  const Tensor q = apply_rope(normed_heads(fused[0], a + "norm_q"), rope);
  const Tensor k = apply_rope(normed_heads(fused[1], a + "norm_k"), rope);
  const Tensor attended = attention(q, k, heads_of(fused[2]), mask).flatten(2);

  const Tensor out = weights_.linear(a + "to_out", at::cat({attended, swiglu(fused[3])}, 2));
  const Tensor y = finite_in_half(joint + per_token(mod[gate]) * out);
  const int64_t text_tokens = x.text_BTC.size(1);
  return {y.slice(1, text_tokens), y.slice(1, 0, text_tokens)};
}

Tensor Flux2::forward(const NamedTensors& inputs) const {
  const Tensor temb = time_guidance_embed(inputs.at("timestep"), guidance_of(inputs));
  const Tensor image_mod = shared_modulation("double_stream_modulation_img", temb);
  const Tensor text_mod = shared_modulation("double_stream_modulation_txt", temb);
  const Tensor joint_mod = shared_modulation("single_stream_modulation", temb);

  Streams x{weights_.linear("x_embedder", inputs.at("hidden_states")),
            weights_.linear("context_embedder", inputs.at("encoder_hidden_states"))};
  const Rope rope = rotation(at::cat({inputs.at("txt_ids"), inputs.at("img_ids")}));
  const KeyMask mask = joint_key_mask(inputs);
  for (int64_t i = 0; i < config_.num_layers; ++i)
    x = double_block(fmt::format("transformer_blocks.{}", i), x, image_mod, text_mod, rope, mask);
  for (int64_t i = 0; i < config_.num_single_layers; ++i)
    x = single_block(fmt::format("single_transformer_blocks.{}", i), x, joint_mod, rope, mask);

  const auto mod = weights_.linear("norm_out.linear", at::silu(temb)).chunk(2, -1);  // scale, shift
  return weights_.linear("proj_out", modulate(layer_norm(x.image_BSC, config_.eps), mod[0], mod[1]));
}

Tensor Flux2::denoise(const NamedTensors& inputs, int64_t steps) const {
  return reference::denoise([this](const NamedTensors& now) { return forward(now); }, inputs, steps);
}

NamedTensors Flux2::run_module(const std::string& name, const NamedTensors& in) const {
  if (is_block_of(name, "transformer_blocks")) {
    const auto out = double_block(name, {in.at("image"), in.at("text")}, in.at("image_mod"), in.at("text_mod"),
                                  rotation(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (is_block_of(name, "single_transformer_blocks")) {
    const auto out =
        single_block(name, {in.at("image"), in.at("text")}, in.at("joint_mod"), rotation(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (name == "time_guidance_embed") return {{"temb", time_guidance_embed(in.at("timestep"), guidance_of(in))}};
  if (name.ends_with(".attn")) return {{"out", attention(in.at("q"), in.at("k"), in.at("v"), given_key_mask(in))}};
  return {{"out", weights_.linear(name, in.at("x"))}};
}

}  // namespace shardproof::reference
