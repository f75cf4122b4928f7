#include "models/flux1.hpp"

#include "kernels/activations.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/modulation.hpp"
#include "kernels/timestep_embedding.hpp"
#include "models/key_mask.hpp"
#include "models/streams.hpp"

#include <optional>

namespace shardproof {
namespace {

constexpr double eps = 1e-6;
constexpr int64_t timestep_channels = 256;

struct DoubleBlock {
  std::string name;
  ShardedLinear image_modulation, text_modulation;
  Stream image, text;
};

struct SingleBlock {
  std::string name;
  ShardedLinear modulation;
  Projections heads;
  ShardedLinear mlp, out;
};

DoubleBlock double_block(ModuleSource& source, int64_t index, const Flux1Config& c) {
  const auto name = fmt::format("transformer_blocks.{}", index);
  const int64_t h = c.hidden();
  return {name, source.linear(name + ".norm1.linear", 6 * h, h), source.linear(name + ".norm1_context.linear", 6 * h, h),
          image_stream(source, name, h, c.head_dim, feed_forward(source, name + ".ff", h, c.mlp_hidden()), true),
          text_stream(source, name, h, c.head_dim, feed_forward(source, name + ".ff_context", h, c.mlp_hidden()), true)};
}

SingleBlock single_block(ModuleSource& source, int64_t index, const Flux1Config& c) {
  const auto name = fmt::format("single_transformer_blocks.{}", index);
  const int64_t h = c.hidden(), mlp = c.mlp_hidden();
  return {name, source.linear(name + ".norm.linear", 3 * h, h), image_projections(source, name + ".attn.", h, c.head_dim, true),
          source.linear(name + ".proj_mlp", mlp, h), source.linear(name + ".proj_out", h, h + mlp)};
}

Streams run(const DoubleBlock& block, Streams x, Tensor temb, const Context& context) {
  enter_block(block.name, x, {{"temb", &temb}}, context.probe);
  const auto image_mod = modulation(block.image_modulation, 6, temb, context.probe);
  const auto text_mod = modulation(block.text_modulation, 6, temb, context.probe);
  const Streams y = run_double(block.name, block.image, block.text, image_mod, text_mod, x, shardproof::gelu_tanh, context);
  return leave_block(block.name, {y.image_BSC, finite_in_half(y.text_BTC)}, context.probe);
}

/// Attention and feed-forward side by side, over text and image as one stream.
Streams run(const SingleBlock& block, Streams x, Tensor temb, const Context& context) {
  enter_block(block.name, x, {{"temb", &temb}}, context.probe);
  const auto mod = modulation(block.modulation, 3, temb, context.probe);  // shift, scale, gate
  const Tensor joint = at::cat({x.text_BTC, x.image_BSC}, 1);
  const Tensor normed = modulate(layer_norm(joint, eps), mod[1], mod[0]);

  const Tensor attended = attend(block.name, project(block.heads, normed, Tokens::joint, context), context);
  const Tensor mlp = shardproof::gelu_tanh(block.mlp.forward(normed, Tokens::joint, context.probe));
  const Tensor out = block.out.forward(at::cat({attended, mlp}, 2), Tokens::joint, context.probe);

  const Tensor y = finite_in_half(gate_residual(joint, mod[2], out));
  const int64_t text_tokens = x.text_BTC.size(1);
  return leave_block(block.name, {y.slice(1, text_tokens), y.slice(1, 0, text_tokens)}, context.probe);
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
    if (c.guidance_embeds)
      guidance_embedder_ = embedder(source, "time_text_embed.guidance_embedder", c.hidden(), timestep_channels);
    for (int64_t i = 0; i < c.num_layers; ++i) double_blocks_.push_back(double_block(source, i, c));
    for (int64_t i = 0; i < c.num_single_layers; ++i) single_blocks_.push_back(single_block(source, i, c));
  }

  Tensor forward(const NamedTensors& inputs, AttentionBackend& attention, Probe& probe) const override {
    check_inputs("flux1", inputs,
                 {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"});
    check_guidance("flux1", inputs, config_.guidance_embeds);
    Streams x{x_embedder_.forward(inputs.at("hidden_states"), Tokens::image, probe),
              context_embedder_.forward(inputs.at("encoder_hidden_states"), Tokens::text, probe)};
    const Tensor temb = time_text_embed(inputs, probe);
    const Context context{joint_rope(inputs, config_.axes_dims_rope, 10000, x.image_BSC),
                          joint_key_mask(inputs),
                          config_.heads,
                          config_.head_dim,
                          eps,
                          attention,
                          probe};
    for (const auto& block : double_blocks_) x = run(block, x, temb, context);
    for (const auto& block : single_blocks_) x = run(block, x, temb, context);

    const auto mod = modulation(norm_out_, 2, temb, probe);  // scale, shift
    return proj_out_.forward(modulate(layer_norm(x.image_BSC, eps), mod[0], mod[1]), Tokens::image, probe);
  }

 private:
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

std::unique_ptr<Model> make_flux1(const Flux1Config& config, ModuleSource& source) {
  return std::make_unique<Flux1>(config, source);
}

ModelSpec flux1_spec(const std::string& name, const Flux1Config& config) {
  return {name, flux1_traits(config), [config](ModuleSource& source) { return make_flux1(config, source); }};
}

}  // namespace shardproof
