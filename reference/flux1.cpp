#include "reference/flux1.hpp"

#include "core/error.hpp"
#include "reference/attention.hpp"

namespace shardproof::reference {
namespace {

constexpr double eps = 1e-6;

std::optional<Tensor> guidance_of(const NamedTensors& in) {
  return in.count("guidance") ? std::optional(in.at("guidance")) : std::nullopt;
}

}  // namespace

Flux1::Flux1(Flux1Config config, NamedTensors weights) : config_(config), weights_(std::move(weights)) {}

Tensor Flux1::feed_forward(const std::string& name, const Tensor& x) const {
  return weights_.linear(name + ".net.2", at::gelu(weights_.linear(name + ".net.0.proj", x), "tanh"));
}

Tensor Flux1::heads_of(const std::string& linear_name, const std::string& norm_name, const Tensor& x) const {
  const Tensor heads = weights_.linear(linear_name, x).unflatten(-1, {config_.heads, config_.head_dim});
  return norm_name.empty() ? heads : rms_norm(heads, weights_.parameter(norm_name + ".weight"), eps);
}

Tensor Flux1::time_text_embed(const Tensor& timestep, const std::optional<Tensor>& guidance, const Tensor& pooled) const {
  Tensor temb = weights_.two_linears("time_text_embed.timestep_embedder", timestep_embedding(timestep * 1000, 256));
  if (guidance)
    temb = temb + weights_.two_linears("time_text_embed.guidance_embedder", timestep_embedding(*guidance * 1000, 256));
  return temb + weights_.two_linears("time_text_embed.text_embedder", pooled);
}

Rope Flux1::rotation(const Tensor& ids) const {
  return rope(ids, config_.axes_dims_rope, 10000, at_least_single(weights_.dtype()));
}

Flux1::Streams Flux1::double_block(const std::string& name, Streams x, const Tensor& temb, const Rope& rope,
                                   const KeyMask& mask) const {
  const auto image_mod = weights_.linear(name + ".norm1.linear", at::silu(temb)).chunk(6, -1);
  const auto text_mod = weights_.linear(name + ".norm1_context.linear", at::silu(temb)).chunk(6, -1);
  enum { shift_attn, scale_attn, gate_attn, shift_mlp, scale_mlp, gate_mlp };

  const Tensor image = modulate(layer_norm(x.image_BSC, eps), image_mod[scale_attn], image_mod[shift_attn]);
  const Tensor text = modulate(layer_norm(x.text_BTC, eps), text_mod[scale_attn], text_mod[shift_attn]);

  const std::string a = name + ".attn";
  const Tensor q =
      at::cat({heads_of(a + ".add_q_proj", a + ".norm_added_q", text), heads_of(a + ".to_q", a + ".norm_q", image)}, 1);
  const Tensor k =
      at::cat({heads_of(a + ".add_k_proj", a + ".norm_added_k", text), heads_of(a + ".to_k", a + ".norm_k", image)}, 1);
  const Tensor v = at::cat({heads_of(a + ".add_v_proj", "", text), heads_of(a + ".to_v", "", image)}, 1);
  const Tensor joint = attention(apply_rope(q, rope), apply_rope(k, rope), v, mask).flatten(2);
  const int64_t text_tokens = text.size(1);

  x.image_BSC = x.image_BSC + per_token(image_mod[gate_attn]) * weights_.linear(a + ".to_out.0", joint.slice(1, text_tokens));
  x.text_BTC = x.text_BTC + per_token(text_mod[gate_attn]) * weights_.linear(a + ".to_add_out", joint.slice(1, 0, text_tokens));

  const Tensor image_mlp = modulate(layer_norm(x.image_BSC, eps), image_mod[scale_mlp], image_mod[shift_mlp]);
  const Tensor text_mlp = modulate(layer_norm(x.text_BTC, eps), text_mod[scale_mlp], text_mod[shift_mlp]);
  x.image_BSC = x.image_BSC + per_token(image_mod[gate_mlp]) * feed_forward(name + ".ff", image_mlp);
  x.text_BTC = x.text_BTC + per_token(text_mod[gate_mlp]) * feed_forward(name + ".ff_context", text_mlp);
  return {x.image_BSC, finite_in_half(x.text_BTC)};
}

Flux1::Streams Flux1::single_block(const std::string& name, Streams x, const Tensor& temb, const Rope& rope,
                                   const KeyMask& mask) const {
  const auto mod = weights_.linear(name + ".norm.linear", at::silu(temb)).chunk(3, -1);
  enum { shift, scale, gate };
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint, eps), mod[scale], mod[shift]);

  const std::string a = name + ".attn";
  const Tensor q = apply_rope(heads_of(a + ".to_q", a + ".norm_q", normed), rope);
  const Tensor k = apply_rope(heads_of(a + ".to_k", a + ".norm_k", normed), rope);
  const Tensor attended = attention(q, k, heads_of(a + ".to_v", "", normed), mask).flatten(2);
  const Tensor mlp = at::gelu(weights_.linear(name + ".proj_mlp", normed), "tanh");

  const Tensor out =
      finite_in_half(joint + per_token(mod[gate]) * weights_.linear(name + ".proj_out", at::cat({attended, mlp}, 2)));
  const int64_t text_tokens = x.text_BTC.size(1);
  return {out.slice(1, text_tokens), out.slice(1, 0, text_tokens)};
}

Tensor Flux1::forward(const NamedTensors& inputs) const {
  Streams x{weights_.linear("x_embedder", inputs.at("hidden_states")),
            weights_.linear("context_embedder", inputs.at("encoder_hidden_states"))};
  const Tensor temb = time_text_embed(inputs.at("timestep"), guidance_of(inputs), inputs.at("pooled_projections"));
  const Rope rope = rotation(at::cat({inputs.at("txt_ids"), inputs.at("img_ids")}));
  const KeyMask mask = joint_key_mask(inputs);
  for (int64_t i = 0; i < config_.num_layers; ++i) x = double_block(fmt::format("transformer_blocks.{}", i), x, temb, rope, mask);
  for (int64_t i = 0; i < config_.num_single_layers; ++i)
    x = single_block(fmt::format("single_transformer_blocks.{}", i), x, temb, rope, mask);
  const auto mod = weights_.linear("norm_out.linear", at::silu(temb)).chunk(2, -1);  // scale, shift
  return weights_.linear("proj_out", modulate(layer_norm(x.image_BSC, eps), mod[0], mod[1]));
}

Tensor Flux1::denoise(const NamedTensors& inputs, int64_t steps) const {
  return reference::denoise([this](const NamedTensors& now) { return forward(now); }, inputs, steps);
}

NamedTensors Flux1::run_module(const std::string& name, const NamedTensors& in) const {
  if (is_block_of(name, "transformer_blocks")) {
    const auto out =
        double_block(name, {in.at("image"), in.at("text")}, in.at("temb"), rotation(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (is_block_of(name, "single_transformer_blocks")) {
    const auto out =
        single_block(name, {in.at("image"), in.at("text")}, in.at("temb"), rotation(in.at("ids")), given_key_mask(in));
    return {{"image", out.image_BSC}, {"text", out.text_BTC}};
  }
  if (name == "time_text_embed") {
    return {{"temb", time_text_embed(in.at("timestep"), guidance_of(in), in.at("pooled"))}};
  }
  if (name.ends_with(".attn")) return {{"out", attention(in.at("q"), in.at("k"), in.at("v"), given_key_mask(in))}};
  return {{"out", weights_.linear(name, in.at("x"))}};
}

}  // namespace shardproof::reference
