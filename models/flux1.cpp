#include "models/flux1.hpp"

#include "core/error.hpp"
#include "kernels/activations.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/timestep_embedding.hpp"
#include "models/key_mask.hpp"

#include <optional>

namespace shardproof {
namespace {

constexpr double eps = 1e-6;
constexpr int64_t timestep_channels = 256;

struct TwoLinears {
  ShardedLinear first, second;
};

/// The projections and norms of one token stream in an attention.
struct HeadsOf {
  ShardedLinear q, k, v;
  Tensor norm_q, norm_k;
};

/// One of the two token streams of a double-stream block.
struct Stream {
  Tokens tokens;
  ShardedLinear modulation;
  HeadsOf heads;
  ShardedLinear attention_out;
  TwoLinears feed_forward;
};

struct DoubleBlock {
  std::string name;
  Stream image, text;
};

struct SingleBlock {
  std::string name;
  ShardedLinear modulation;
  HeadsOf heads;
  ShardedLinear mlp, out;
};

struct Streams {
  Tensor image_BSC, text_BTC;
};

/// What all blocks of one forward share.
struct Context {
  Tensor temb_BC;
  RopeTable rope;
  std::optional<Tensor> key_mask_BT;
  int64_t head_dim;
  AttentionBackend& attention;
  Probe& probe;
};

struct Heads {
  Tensor q_BSHD, k_BSHD, v_BSHD;
};

/// FLUX.1 keeps half precision finite between blocks; every other dtype has the range.
Tensor finite_in_half(const Tensor& x) { return x.scalar_type() == at::kHalf ? x.clamp(-65504, 65504) : x; }

TwoLinears embedder(ModuleSource& source, const std::string& name, int64_t hidden, int64_t in) {
  return {source.linear(name + ".linear_1", hidden, in), source.linear(name + ".linear_2", hidden, hidden)};
}

HeadsOf heads_of(ModuleSource& source, const std::string& attn, const char* q, const char* k, const char* v, const char* norm_q,
                 const char* norm_k, const Flux1Config& c) {
  return {source.linear(attn + q, c.hidden(), c.hidden()), source.linear(attn + k, c.hidden(), c.hidden()),
          source.linear(attn + v, c.hidden(), c.hidden()), source.parameter(attn + norm_q + ".weight", {c.head_dim}),
          source.parameter(attn + norm_k + ".weight", {c.head_dim})};
}

TwoLinears feed_forward(ModuleSource& source, const std::string& name, const Flux1Config& c) {
  return {source.linear(name + ".net.0.proj", c.mlp_hidden(), c.hidden()), source.linear(name + ".net.2", c.hidden(), c.mlp_hidden())};
}

DoubleBlock double_block(ModuleSource& source, int64_t index, const Flux1Config& c) {
  const auto name = fmt::format("transformer_blocks.{}", index), attn = name + ".attn.";
  return {name,
          {Tokens::image, source.linear(name + ".norm1.linear", 6 * c.hidden(), c.hidden()),
           heads_of(source, attn, "to_q", "to_k", "to_v", "norm_q", "norm_k", c), source.linear(attn + "to_out.0", c.hidden(), c.hidden()),
           feed_forward(source, name + ".ff", c)},
          {Tokens::text, source.linear(name + ".norm1_context.linear", 6 * c.hidden(), c.hidden()),
           heads_of(source, attn, "add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k", c),
           source.linear(attn + "to_add_out", c.hidden(), c.hidden()), feed_forward(source, name + ".ff_context", c)}};
}

SingleBlock single_block(ModuleSource& source, int64_t index, const Flux1Config& c) {
  const auto name = fmt::format("single_transformer_blocks.{}", index), attn = name + ".attn.";
  return {name, source.linear(name + ".norm.linear", 3 * c.hidden(), c.hidden()),
          heads_of(source, attn, "to_q", "to_k", "to_v", "norm_q", "norm_k", c), source.linear(name + ".proj_mlp", c.mlp_hidden(), c.hidden()),
          source.linear(name + ".proj_out", c.hidden(), c.hidden() + c.mlp_hidden())};
}

Tensor embed(const TwoLinears& embedder, const Tensor& x, Probe& probe) {
  return embedder.second.forward(shardproof::silu(embedder.first.forward(x, Tokens::none, probe)), Tokens::none, probe);
}

std::vector<Tensor> modulation(const ShardedLinear& linear, int64_t parts, const Context& context) {
  return linear.forward(shardproof::silu(context.temb_BC), Tokens::none, context.probe).chunk(parts, -1);
}

Heads project(const HeadsOf& modules, const Tensor& x, Tokens tokens, const Context& context) {
  const auto heads = [&](const ShardedLinear& linear) {
    return linear.forward(x, tokens, context.probe).unflatten(-1, {-1, context.head_dim});  // -1: this rank's heads
  };
  return {rms_norm(heads(modules.q), modules.norm_q, eps), rms_norm(heads(modules.k), modules.norm_k, eps), heads(modules.v)};
}

/// Rotates q and k, attends over every rank's tokens, and joins the heads: [B, S, H*D].
Tensor attend(const std::string& block, Heads heads, const Context& context) {
  const auto name = block + ".attn";
  const Layout layout{Tokens::joint, 2, {}};
  Tensor q = apply_rope(heads.q_BSHD, context.rope), k = apply_rope(heads.k_BSHD, context.rope), v = heads.v_BSHD;
  context.probe.input(name, "q", q, layout);
  context.probe.input(name, "k", k, layout);
  context.probe.input(name, "v", v, layout);
  const Tensor out = context.attention.forward(q, k, v, context.key_mask_BT).out_BSHD;
  context.probe.output(name, "out", out, layout);
  return out.flatten(2);
}

Context enter_block(const std::string& name, Streams& x, Context context) {
  context.probe.input(name, "image", x.image_BSC, {Tokens::image});
  context.probe.input(name, "text", x.text_BTC, {Tokens::text});
  context.probe.input(name, "temb", context.temb_BC, {Tokens::none});
  return context;
}

Streams leave_block(const std::string& name, Streams x, const Context& context) {
  context.probe.output(name, "image", x.image_BSC, {Tokens::image});
  context.probe.output(name, "text", x.text_BTC, {Tokens::text});
  return x;
}

Tensor after_attention(const Stream& stream, const std::vector<Tensor>& mod, const Tensor& residual, const Tensor& attended,
                       const Context& context) {
  enum { shift_attn, scale_attn, gate_attn, shift_mlp, scale_mlp, gate_mlp };
  const Tensor x = gate_residual(residual, mod[gate_attn], stream.attention_out.forward(attended, stream.tokens, context.probe));
  const Tensor normed = modulate(layer_norm(x, eps), mod[scale_mlp], mod[shift_mlp]);
  const Tensor inner = shardproof::gelu_tanh(stream.feed_forward.first.forward(normed, stream.tokens, context.probe));
  return gate_residual(x, mod[gate_mlp], stream.feed_forward.second.forward(inner, stream.tokens, context.probe));
}

Streams run(const DoubleBlock& block, Streams x, const Context& outer) {
  const Context context = enter_block(block.name, x, outer);
  const auto image_mod = modulation(block.image.modulation, 6, context), text_mod = modulation(block.text.modulation, 6, context);
  const Tensor image = modulate(layer_norm(x.image_BSC, eps), image_mod[1], image_mod[0]);
  const Tensor text = modulate(layer_norm(x.text_BTC, eps), text_mod[1], text_mod[0]);

  const Heads i = project(block.image.heads, image, Tokens::image, context), t = project(block.text.heads, text, Tokens::text, context);
  const Tensor joint = attend(
      block.name, {at::cat({t.q_BSHD, i.q_BSHD}, 1), at::cat({t.k_BSHD, i.k_BSHD}, 1), at::cat({t.v_BSHD, i.v_BSHD}, 1)}, context);
  const int64_t text_tokens = text.size(1);

  return leave_block(block.name,
                     {after_attention(block.image, image_mod, x.image_BSC, joint.slice(1, text_tokens), context),
                      finite_in_half(after_attention(block.text, text_mod, x.text_BTC, joint.slice(1, 0, text_tokens), context))},
                     context);
}

Streams run(const SingleBlock& block, Streams x, const Context& outer) {
  const Context context = enter_block(block.name, x, outer);
  const auto mod = modulation(block.modulation, 3, context);  // shift, scale, gate
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint, eps), mod[1], mod[0]);

  const Tensor attended = attend(block.name, project(block.heads, normed, Tokens::joint, context), context);
  const Tensor mlp = shardproof::gelu_tanh(block.mlp.forward(normed, Tokens::joint, context.probe));
  const Tensor out = block.out.forward(at::cat({attended, mlp}, 2), Tokens::joint, context.probe);

  const Tensor y = finite_in_half(gate_residual(joint, mod[2], out));
  const int64_t text_tokens = x.text_BTC.size(1);
  return leave_block(block.name, {y.slice(1, text_tokens), y.slice(1, 0, text_tokens)}, context);
}

class Flux1 : public Model {
 public:
  Flux1(const Flux1Config& c, ModuleSource& source)
      : config_(c),
        x_embedder_(source.linear("x_embedder", c.hidden(), c.in_channels)),
        context_embedder_(source.linear("context_embedder", c.hidden(), c.joint_attention_dim)),
        timestep_embedder_(embedder(source, "time_text_embed.timestep_embedder", c.hidden(), timestep_channels)),
        text_embedder_(embedder(source, "time_text_embed.text_embedder", c.hidden(), c.pooled_projection_dim)),
        norm_out_(source.linear("norm_out.linear", 2 * c.hidden(), c.hidden())),
        proj_out_(source.linear("proj_out", c.patch_size * c.patch_size * c.out_channels, c.hidden())) {
    if (c.guidance_embeds) guidance_embedder_ = embedder(source, "time_text_embed.guidance_embedder", c.hidden(), timestep_channels);
    for (int64_t i = 0; i < c.num_layers; ++i) double_blocks_.push_back(double_block(source, i, c));
    for (int64_t i = 0; i < c.num_single_layers; ++i) single_blocks_.push_back(single_block(source, i, c));
  }

  Tensor forward(const NamedTensors& inputs, AttentionBackend& attention, Probe& probe) const override {
    check(inputs);
    Streams x{x_embedder_.forward(inputs.at("hidden_states"), Tokens::image, probe),
              context_embedder_.forward(inputs.at("encoder_hidden_states"), Tokens::text, probe)};
    // Rotations are applied in at least single precision.
    const auto wide = x.image_BSC.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Context context{time_text_embed(inputs, probe),
                          rope_table(at::cat({inputs.at("txt_ids"), inputs.at("img_ids")}), config_.axes_dims_rope, 10000.0, wide),
                          joint_key_mask(inputs), config_.head_dim, attention, probe};
    for (const auto& block : double_blocks_) x = run(block, x, context);
    for (const auto& block : single_blocks_) x = run(block, x, context);

    const auto mod = modulation(norm_out_, 2, context);  // scale, shift
    return proj_out_.forward(modulate(layer_norm(x.image_BSC, eps), mod[0], mod[1]), Tokens::image, probe);
  }

 private:
  void check(const NamedTensors& inputs) const {
    for (const char* name : {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"})
      if (!inputs.count(name)) fail_input("flux1", "input {} is missing", name);
    if (config_.guidance_embeds != (inputs.count("guidance") > 0))
      fail_input("flux1", "the checkpoint {} guidance, the inputs {}", config_.guidance_embeds ? "takes" : "does not take",
                 config_.guidance_embeds ? "lack it" : "have it");
  }

  /// The conditioning vector [B, C]. FLUX.1 scales sigma and guidance by 1000 in the model's own dtype.
  Tensor time_text_embed(const NamedTensors& inputs, Probe& probe) const {
    const std::string name = "time_text_embed";
    const auto taken = [&](const char* slot, const char* input) {
      Tensor value = inputs.at(input);
      probe.input(name, slot, value, {Tokens::none});
      return value;
    };
    const auto sinusoid = [](const Tensor& t) { return timestep_embedding(t * 1000, timestep_channels, t.scalar_type()); };
    Tensor temb = embed(timestep_embedder_, sinusoid(taken("timestep", "timestep")), probe);
    if (guidance_embedder_) temb = temb + embed(*guidance_embedder_, sinusoid(taken("guidance", "guidance")), probe);
    temb = temb + embed(text_embedder_, taken("pooled", "pooled_projections"), probe);
    probe.output(name, "temb", temb, {Tokens::none});
    return temb;
  }

  Flux1Config config_;
  ShardedLinear x_embedder_, context_embedder_;
  TwoLinears timestep_embedder_, text_embedder_;
  std::optional<TwoLinears> guidance_embedder_;
  std::vector<DoubleBlock> double_blocks_;
  std::vector<SingleBlock> single_blocks_;
  ShardedLinear norm_out_, proj_out_;
};

}  // namespace

std::unique_ptr<Model> make_flux1(const Flux1Config& config, ModuleSource& source) { return std::make_unique<Flux1>(config, source); }

ModelSpec flux1_spec(const std::string& name, const Flux1Config& config) {
  return {name, flux1_traits(config), [config](ModuleSource& source) { return make_flux1(config, source); }};
}

}  // namespace shardproof
