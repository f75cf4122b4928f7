#include "models/streams.hpp"

#include "core/error.hpp"
#include "kernels/activations.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"

namespace shardproof {

RopeTable joint_rope(const NamedTensors& inputs, at::IntArrayRef axes_dims, double theta, const Tensor& like) {
  const auto wide = like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return rope_table(at::cat({inputs.at("txt_ids"), inputs.at("img_ids")}), axes_dims, theta, wide);
}

void check_inputs(const std::string& subsystem, const NamedTensors& inputs, std::initializer_list<const char*> needed) {
  for (const char* name : needed)
    if (!inputs.count(name)) fail_input(subsystem, "input {} is missing", name);
}

void check_guidance(const std::string& subsystem, const NamedTensors& inputs, bool takes_guidance) {
  if (takes_guidance != (inputs.count("guidance") > 0))
    fail_input(subsystem, "the checkpoint {} guidance, the inputs {}", takes_guidance ? "takes" : "does not take",
               takes_guidance ? "lack it" : "have it");
}

Tensor finite_in_half(const Tensor& x) { return x.scalar_type() == at::kHalf ? x.clamp(-65504, 65504) : x; }

TwoLinears embedder(ModuleSource& source, const std::string& name, int64_t hidden, int64_t in, bool bias) {
  return {source.linear(name + ".linear_1", hidden, in, bias), source.linear(name + ".linear_2", hidden, hidden, bias)};
}

Tensor embed(const TwoLinears& embedder, const Tensor& x, Probe& probe) {
  return embedder.second.forward(shardproof::silu(embedder.first.forward(x, Tokens::none, probe)), Tokens::none, probe);
}

TwoLinears feed_forward(ModuleSource& source, const std::string& name, int64_t hidden, int64_t inner) {
  return {source.linear(name + ".net.0.proj", inner, hidden), source.linear(name + ".net.2", hidden, inner)};
}

std::vector<Tensor> modulation(const ShardedLinear& linear, int64_t parts, const Tensor& temb_BC, Probe& probe) {
  return linear.forward(shardproof::silu(temb_BC), Tokens::none, probe).chunk(parts, -1);
}

namespace {

struct ProjectionNames {
  const char *q, *k, *v, *norm_q, *norm_k;
};

Projections projections(ModuleSource& source, const std::string& attn, const ProjectionNames& names, int64_t hidden,
                        int64_t head_dim, bool bias) {
  return {source.linear(attn + names.q, hidden, hidden, bias), source.linear(attn + names.k, hidden, hidden, bias),
          source.linear(attn + names.v, hidden, hidden, bias), source.parameter(attn + names.norm_q + ".weight", {head_dim}),
          source.parameter(attn + names.norm_k + ".weight", {head_dim})};
}

}  // namespace

Projections image_projections(ModuleSource& source, const std::string& attn, int64_t hidden, int64_t head_dim, bool bias) {
  return projections(source, attn, {"to_q", "to_k", "to_v", "norm_q", "norm_k"}, hidden, head_dim, bias);
}

Stream image_stream(ModuleSource& source, const std::string& block, int64_t hidden, int64_t head_dim, TwoLinears feed_forward,
                    bool bias) {
  const std::string attn = block + ".attn.";
  return {Tokens::image, image_projections(source, attn, hidden, head_dim, bias),
          source.linear(attn + "to_out.0", hidden, hidden, bias), std::move(feed_forward)};
}

Stream text_stream(ModuleSource& source, const std::string& block, int64_t hidden, int64_t head_dim, TwoLinears feed_forward,
                   bool bias) {
  const std::string attn = block + ".attn.";
  return {Tokens::text,
          projections(source, attn, {"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"}, hidden, head_dim,
                      bias),
          source.linear(attn + "to_add_out", hidden, hidden, bias), std::move(feed_forward)};
}

Heads project(const Projections& modules, const Tensor& x, Tokens tokens, const Context& context) {
  const auto heads = [&](const ShardedLinear& linear) {
    return linear.forward(x, tokens, context.probe).unflatten(-1, {-1, context.head_dim});  // -1: this rank's heads
  };
  return {rms_norm(heads(modules.q), modules.norm_q, context.eps), rms_norm(heads(modules.k), modules.norm_k, context.eps),
          heads(modules.v)};
}

Tensor attend(const std::string& block, const Heads& heads, const Context& context) {
  const auto name = block + ".attn";
  // Under a plan that leaves the projections whole, every rank has all heads.
  const auto layout = [&](const Tensor& x) { return Layout{Tokens::joint, x.size(2) == context.heads ? -1 : 2, {}}; };
  Tensor q = apply_rope(heads.q_BSHD, context.rope), k = apply_rope(heads.k_BSHD, context.rope), v = heads.v_BSHD;
  context.probe.input(name, "q", q, layout(q));
  context.probe.input(name, "k", k, layout(k));
  context.probe.input(name, "v", v, layout(v));
  const Tensor out = context.attention.forward(q, k, v, context.key_mask_BT).out_BSHD;
  context.probe.output(name, "out", out, layout(out));
  return out.flatten(2);
}

namespace {

enum { shift_attn, scale_attn, gate_attn, shift_mlp, scale_mlp, gate_mlp };

Tensor after_attention(const Stream& stream, const std::vector<Tensor>& mod, const Tensor& residual, const Tensor& attended,
                       Activation activation, const Context& context) {
  const Tensor x = gate_residual(residual, mod[gate_attn], stream.attention_out.forward(attended, stream.tokens, context.probe));
  const Tensor normed = modulate(layer_norm(x, context.eps), mod[scale_mlp], mod[shift_mlp]);
  const Tensor inner = activation(stream.feed_forward.first.forward(normed, stream.tokens, context.probe));
  return gate_residual(x, mod[gate_mlp], stream.feed_forward.second.forward(inner, stream.tokens, context.probe));
}

}  // namespace

Streams run_double(const std::string& block, const Stream& image, const Stream& text, const std::vector<Tensor>& image_mod,
                   const std::vector<Tensor>& text_mod, const Streams& x, Activation activation, const Context& context) {
  const Tensor image_in = modulate(layer_norm(x.image_BSC, context.eps), image_mod[scale_attn], image_mod[shift_attn]);
  const Tensor text_in = modulate(layer_norm(x.text_BTC, context.eps), text_mod[scale_attn], text_mod[shift_attn]);

  const Heads i = project(image.heads, image_in, image.tokens, context), t = project(text.heads, text_in, text.tokens, context);
  const Heads joint{at::cat({t.q_BSHD, i.q_BSHD}, 1), at::cat({t.k_BSHD, i.k_BSHD}, 1), at::cat({t.v_BSHD, i.v_BSHD}, 1)};
  const Tensor attended = attend(block, joint, context);

  const int64_t text_tokens = x.text_BTC.size(1);
  return {after_attention(image, image_mod, x.image_BSC, attended.slice(1, text_tokens), activation, context),
          after_attention(text, text_mod, x.text_BTC, attended.slice(1, 0, text_tokens), activation, context)};
}

void enter_block(const std::string& block, Streams& x, std::initializer_list<std::pair<const char*, Tensor*>> conditioning,
                 Probe& probe) {
  probe.input(block, "image", x.image_BSC, {Tokens::image});
  probe.input(block, "text", x.text_BTC, {Tokens::text});
  for (const auto& [slot, value] : conditioning) probe.input(block, slot, *value, {Tokens::none});
}

Streams leave_block(const std::string& block, const Streams& x, Probe& probe) {
  probe.output(block, "image", x.image_BSC, {Tokens::image});
  probe.output(block, "text", x.text_BTC, {Tokens::text});
  return x;
}

}  // namespace shardproof
