#include "models/flux2.hpp"

#include "kernels/activations.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/timestep_embedding.hpp"
#include "models/key_mask.hpp"
#include "models/streams.hpp"

#include <optional>

namespace shardproof {
namespace {

constexpr bool no_bias = false;

struct DoubleBlock {
  std::string name;
  Stream image, text;
};

/// Attention and feed-forward side by side, each half of one fused Linear in and one fused Linear out.
struct SingleBlock {
  std::string name;
  ShardedLinear in, out;  ///< [q ; k ; v ; gate ; up], and [attention ; mlp]
  Tensor norm_q, norm_k;
};

/// SwiGLU over a fused [gate ; up].
Tensor swiglu(const Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return shardproof::silu(halves[0]) * halves[1];
}

TwoLinears gated_feed_forward(ModuleSource& source, const std::string& name, const Flux2Config& c) {
  return {source.linear(name + ".linear_in", 2 * c.mlp_hidden(), c.hidden(), no_bias),
          source.linear(name + ".linear_out", c.hidden(), c.mlp_hidden(), no_bias)};
}

DoubleBlock double_block(ModuleSource& source, int64_t index, const Flux2Config& c) {
  const auto name = fmt::format("transformer_blocks.{}", index);
  return {name, image_stream(source, name, c.hidden(), c.head_dim, gated_feed_forward(source, name + ".ff", c), no_bias),
          text_stream(source, name, c.hidden(), c.head_dim, gated_feed_forward(source, name + ".ff_context", c), no_bias)};
}

SingleBlock single_block(ModuleSource& source, int64_t index, const Flux2Config& c) {
  const auto name = fmt::format("single_transformer_blocks.{}", index), attn = name + ".attn.";
  const int64_t h = c.hidden(), mlp = c.mlp_hidden();
  return {name, source.linear(attn + "to_qkv_mlp_proj", 3 * h + 2 * mlp, h, no_bias),
          source.linear(attn + "to_out", h, h + mlp, no_bias), source.parameter(attn + "norm_q.weight", {c.head_dim}),
          source.parameter(attn + "norm_k.weight", {c.head_dim})};
}

/// `image_mod` and `text_mod`, [B, 6 C], come from the model: all blocks share them.
Streams run(const DoubleBlock& block, Streams x, Tensor image_mod, Tensor text_mod, const Context& context) {
  enter_block(block.name, x, {{"image_mod", &image_mod}, {"text_mod", &text_mod}}, context.probe);
  const Streams y =
      run_double(block.name, block.image, block.text, image_mod.chunk(6, -1), text_mod.chunk(6, -1), x, swiglu, context);
  return leave_block(block.name, {y.image_BSC, finite_in_half(y.text_BTC)}, context.probe);
}

Streams run(const SingleBlock& block, Streams x, Tensor joint_mod, const Flux2Config& c, const Context& context) {
  enter_block(block.name, x, {{"joint_mod", &joint_mod}}, context.probe);
  const auto mod = joint_mod.chunk(3, -1);  // shift, scale, gate
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint, c.eps), mod[1], mod[0]);

  const Tensor fused = block.in.forward(normed, Tokens::joint, context.probe);
  // A rank holds its share of each block, so the blocks keep their proportions.
  const int64_t qkv = 3 * fused.size(-1) * c.hidden() / (3 * c.hidden() + 2 * c.mlp_hidden());
  const auto projected = fused.slice(-1, 0, qkv).chunk(3, -1);
  const auto heads = [&](int64_t i) { return projected[i].unflatten(-1, {-1, c.head_dim}); };
  const Tensor attended =
      attend(block.name, {rms_norm(heads(0), block.norm_q, c.eps), rms_norm(heads(1), block.norm_k, c.eps), heads(2)}, context);
  const Tensor out = block.out.forward(at::cat({attended, swiglu(fused.slice(-1, qkv))}, 2), Tokens::joint, context.probe);

  const Tensor y = finite_in_half(gate_residual(joint, mod[2], out));
  const int64_t text_tokens = x.text_BTC.size(1);
  return leave_block(block.name, {y.slice(1, text_tokens), y.slice(1, 0, text_tokens)}, context.probe);
}

class Flux2 : public Model {
 public:
  Flux2(const Flux2Config& c, ModuleSource& source)
      : config_(c),
        x_embedder_(source.linear("x_embedder", c.hidden(), c.in_channels, no_bias)),
        context_embedder_(source.linear("context_embedder", c.hidden(), c.joint_attention_dim, no_bias)),
        timestep_embedder_(embedder(source, "time_guidance_embed.timestep_embedder", c.hidden(), c.timestep_channels, no_bias)),
        image_modulation_(source.linear("double_stream_modulation_img.linear", 6 * c.hidden(), c.hidden(), no_bias)),
        text_modulation_(source.linear("double_stream_modulation_txt.linear", 6 * c.hidden(), c.hidden(), no_bias)),
        joint_modulation_(source.linear("single_stream_modulation.linear", 3 * c.hidden(), c.hidden(), no_bias)),
        norm_out_(source.linear("norm_out.linear", 2 * c.hidden(), c.hidden(), no_bias)),
        proj_out_(source.linear("proj_out", c.patch_size * c.patch_size * c.out_channels, c.hidden(), no_bias)) {
    if (c.guidance_embeds)
      guidance_embedder_ = embedder(source, "time_guidance_embed.guidance_embedder", c.hidden(), c.timestep_channels, no_bias);
    for (int64_t i = 0; i < c.num_layers; ++i) double_blocks_.push_back(double_block(source, i, c));
    for (int64_t i = 0; i < c.num_single_layers; ++i) single_blocks_.push_back(single_block(source, i, c));
  }

  Tensor forward(const NamedTensors& inputs, AttentionBackend& attention, Probe& probe) const override {
    check_inputs("flux2", inputs, {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"});
    check_guidance("flux2", inputs, config_.guidance_embeds);
    const Tensor temb = time_guidance_embed(inputs, probe);
    const auto conditioning = [&](const ShardedLinear& linear) { return modulation(linear, 1, temb, probe).front(); };
    const Tensor image_mod = conditioning(image_modulation_), text_mod = conditioning(text_modulation_),
                 joint_mod = conditioning(joint_modulation_);

    Streams x{x_embedder_.forward(inputs.at("hidden_states"), Tokens::image, probe),
              context_embedder_.forward(inputs.at("encoder_hidden_states"), Tokens::text, probe)};
    const Context context{joint_rope(inputs, config_.axes_dims_rope, config_.rope_theta, x.image_BSC),
                          joint_key_mask(inputs),
                          config_.heads,
                          config_.head_dim,
                          config_.eps,
                          attention,
                          probe};
    for (const auto& block : double_blocks_) x = run(block, x, image_mod, text_mod, context);
    for (const auto& block : single_blocks_) x = run(block, x, joint_mod, config_, context);

    const auto mod = modulation(norm_out_, 2, temb, probe);  // scale, shift
    return proj_out_.forward(modulate(layer_norm(x.image_BSC, config_.eps), mod[0], mod[1]), Tokens::image, probe);
  }

 private:
  /// The conditioning vector [B, C]. FLUX.2 scales sigma and guidance by 1000 in the model's own dtype.
  Tensor time_guidance_embed(const NamedTensors& inputs, Probe& probe) const {
    const std::string name = "time_guidance_embed";
    const auto sinusoid = [&](const char* input) {
      Tensor t = inputs.at(input);
      probe.input(name, input, t, {Tokens::none});
      return timestep_embedding(t * 1000, config_.timestep_channels, t.scalar_type());
    };
    Tensor temb = embed(timestep_embedder_, sinusoid("timestep"), probe);
    if (guidance_embedder_) temb = temb + embed(*guidance_embedder_, sinusoid("guidance"), probe);
    probe.output(name, "temb", temb, {Tokens::none});
    return temb;
  }

  Flux2Config config_;
  ShardedLinear x_embedder_, context_embedder_;
  TwoLinears timestep_embedder_;
  std::optional<TwoLinears> guidance_embedder_;
  ShardedLinear image_modulation_, text_modulation_, joint_modulation_;
  std::vector<DoubleBlock> double_blocks_;
  std::vector<SingleBlock> single_blocks_;
  ShardedLinear norm_out_, proj_out_;
};

}  // namespace

std::unique_ptr<Model> make_flux2(const Flux2Config& config, ModuleSource& source) {
  return std::make_unique<Flux2>(config, source);
}

ModelSpec flux2_spec(const std::string& name, const Flux2Config& config) {
  return {name, flux2_traits(config), [config](ModuleSource& source) { return make_flux2(config, source); }};
}

}  // namespace shardproof
