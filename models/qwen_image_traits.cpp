#include "models/qwen_image.hpp"

#include "core/error.hpp"
#include "models/traits_collector.hpp"

namespace shardproof {
namespace {

void block(TraitsCollector& add, const std::string& name, const QwenImageConfig& c) {
  const int64_t h = c.hidden();
  add.joint_attention(name, h, c.head_dim);
  for (const auto& [stream, tokens] : {std::pair{".img_", Tokens::image}, {".txt_", Tokens::text}}) {
    add.linear(name + stream + "mod.1", 6 * h, h, Tokens::none);
    add.linear(name + stream + "mlp.net.0.proj", c.mlp_hidden(), h, tokens);
    add.linear(name + stream + "mlp.net.2", h, c.mlp_hidden(), tokens);
  }
}

std::map<std::string, Sharding> shipped_tp_plan() {
  std::map<std::string, Sharding> plan;
  add_joint_attention(plan);
  for (const char* name : {"transformer_blocks.*.img_mlp.net", "transformer_blocks.*.txt_mlp.net"}) {
    plan[std::string(name) + ".0.proj"] = Colwise{};
    plan[std::string(name) + ".2"] = Rowwise{};
  }
  return plan;
}

}  // namespace

ModelTraits qwen_image_traits(const QwenImageConfig& c) {
  const int64_t h = c.hidden();
  ModelTraits traits;
  traits.family = "qwen_image";
  traits.heads = traits.kv_heads = c.heads;
  traits.head_dim = c.head_dim;
  traits.out_channels = c.patch_size * c.patch_size * c.out_channels;

  TraitsCollector add(traits);
  add.linear("img_in", h, c.in_channels, Tokens::image);
  add.norm("txt_norm", c.joint_attention_dim);
  add.linear("txt_in", h, c.joint_attention_dim, Tokens::text);
  add.embedder("time_text_embed.timestep_embedder", h, 256);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    traits.attentions.push_back(fmt::format("transformer_blocks.{}.attn", i));
    block(add, fmt::format("transformer_blocks.{}", i), c);
  }
  add.linear("norm_out.linear", 2 * h, h, Tokens::none);
  add.linear("proj_out", traits.out_channels, h, Tokens::image);

  traits.tp_plan = shipped_tp_plan();
  add_token_inputs(traits);
  return traits;
}

}  // namespace shardproof
