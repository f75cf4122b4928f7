#include "models/qwen_image.hpp"

#include "kernels/activations.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/timestep_embedding.hpp"
#include "models/key_mask.hpp"
#include "models/streams.hpp"

namespace shardproof {
namespace {

constexpr double eps = 1e-6;
constexpr int64_t timestep_channels = 256;

struct Block {
  std::string name;
  ShardedLinear image_modulation, text_modulation;
  Stream image, text;
};

Block block_of(ModuleSource& source, int64_t index, const QwenImageConfig& c) {
  const auto name = fmt::format("transformer_blocks.{}", index);
  const int64_t h = c.hidden();
  return {name, source.linear(name + ".img_mod.1", 6 * h, h), source.linear(name + ".txt_mod.1", 6 * h, h),
          image_stream(source, name, h, c.head_dim, feed_forward(source, name + ".img_mlp", h, c.mlp_hidden()), true),
          text_stream(source, name, h, c.head_dim, feed_forward(source, name + ".txt_mlp", h, c.mlp_hidden()), true)};
}

Streams run(const Block& block, Streams x, Tensor temb, const Context& context) {
  enter_block(block.name, x, {{"temb", &temb}}, context.probe);
  const auto image_mod = modulation(block.image_modulation, 6, temb, context.probe);
  const auto text_mod = modulation(block.text_modulation, 6, temb, context.probe);
  const Streams y = run_double(block.name, block.image, block.text, image_mod, text_mod, x, shardproof::gelu_tanh, context);
  return leave_block(block.name, {finite_in_half(y.image_BSC), finite_in_half(y.text_BTC)}, context.probe);
}

class QwenImage : public Model {
 public:
  QwenImage(const QwenImageConfig& c, ModuleSource& source)
      : config_(c),
        image_in_(source.linear("img_in", c.hidden(), c.in_channels)),
        text_norm_(source.parameter("txt_norm.weight", {c.joint_attention_dim})),
        text_in_(source.linear("txt_in", c.hidden(), c.joint_attention_dim)),
        timestep_embedder_(embedder(source, "time_text_embed.timestep_embedder", c.hidden(), timestep_channels)),
        norm_out_(source.linear("norm_out.linear", 2 * c.hidden(), c.hidden())),
        proj_out_(source.linear("proj_out", c.patch_size * c.patch_size * c.out_channels, c.hidden())) {
    for (int64_t i = 0; i < c.num_layers; ++i) blocks_.push_back(block_of(source, i, c));
  }

  Tensor forward(const NamedTensors& inputs, AttentionBackend& attention, Probe& probe) const override {
    check_inputs("qwen_image", inputs, {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"});
    Streams x{image_in_.forward(inputs.at("hidden_states"), Tokens::image, probe),
              text_in_.forward(rms_norm(inputs.at("encoder_hidden_states"), text_norm_, eps), Tokens::text, probe)};
    const Tensor temb = time_text_embed(inputs, probe);
    const Context context{joint_rope(inputs, config_.axes_dims_rope, 10000, x.image_BSC),
                          joint_key_mask(inputs),
                          config_.heads,
                          config_.head_dim,
                          eps,
                          attention,
                          probe};
    for (const auto& block : blocks_) x = run(block, x, temb, context);

    const auto mod = modulation(norm_out_, 2, temb, probe);  // scale, shift
    return proj_out_.forward(modulate(layer_norm(x.image_BSC, eps), mod[0], mod[1]), Tokens::image, probe);
  }

 private:
  /// The conditioning vector [B, C]. Unlike FLUX, sigma is scaled by 1000 in at least single precision.
  Tensor time_text_embed(const NamedTensors& inputs, Probe& probe) const {
    const std::string name = "time_text_embed";
    Tensor t = inputs.at("timestep");
    probe.input(name, "timestep", t, {Tokens::none});
    const Tensor scaled = (t.scalar_type() == at::kDouble ? t : t.to(at::kFloat)) * 1000;
    const Tensor temb = embed(timestep_embedder_, timestep_embedding(scaled, timestep_channels, t.scalar_type()), probe);
    probe.output(name, "temb", temb, {Tokens::none});
    return temb;
  }

  QwenImageConfig config_;
  ShardedLinear image_in_;
  Tensor text_norm_;
  ShardedLinear text_in_;
  TwoLinears timestep_embedder_;
  std::vector<Block> blocks_;
  ShardedLinear norm_out_, proj_out_;
};

}  // namespace

std::unique_ptr<Model> make_qwen_image(const QwenImageConfig& config, ModuleSource& source) {
  return std::make_unique<QwenImage>(config, source);
}

ModelSpec qwen_image_spec(const std::string& name, const QwenImageConfig& config) {
  return {name, qwen_image_traits(config), [config](ModuleSource& source) { return make_qwen_image(config, source); }};
}

}  // namespace shardproof
