#include "models/flux2.hpp"

#include "core/error.hpp"
#include "models/traits_collector.hpp"

namespace shardproof {
namespace {

constexpr bool no_bias = false;

void double_block(TraitsCollector& add, const std::string& name, int64_t h, int64_t mlp, int64_t head_dim) {
  add.joint_attention(name, h, head_dim, no_bias);
  for (const auto& [stream, tokens] : {std::pair{".ff", Tokens::image}, {".ff_context", Tokens::text}}) {
    add.linear(name + stream + ".linear_in", 2 * mlp, h, tokens, no_bias);
    add.linear(name + stream + ".linear_out", h, mlp, tokens, no_bias);
  }
}

void single_block(TraitsCollector& add, const std::string& name, int64_t h, int64_t mlp, int64_t head_dim) {
  add.linear(name + ".attn.to_qkv_mlp_proj", 3 * h + 2 * mlp, h, Tokens::joint, no_bias);
  add.linear(name + ".attn.to_out", h, h + mlp, Tokens::joint, no_bias);
  for (const char* norm : {"norm_q", "norm_k"}) add.norm(name + ".attn." + norm, head_dim);
}

std::map<std::string, Sharding> shipped_tp_plan(int64_t h, int64_t mlp) {
  const std::string two = "transformer_blocks.*.", one = "single_transformer_blocks.*.attn.";
  std::map<std::string, Sharding> plan;
  add_joint_attention(plan);
  for (const char* name : {"ff", "ff_context"}) {
    plan[two + name + ".linear_in"] = Colwise{{1, 1}};  // gate and up
    plan[two + name + ".linear_out"] = Rowwise{};
  }
  plan[one + "to_qkv_mlp_proj"] = Colwise{{h, h, h, mlp, mlp}};  // sizes stored with the Linear in diffusers, as the next one's
  plan[one + "to_out"] = Rowwise{{h, mlp}, false};
  return plan;
}

}  // namespace

ModelTraits flux2_traits(const Flux2Config& c) {
  const int64_t h = c.hidden(), mlp = c.mlp_hidden();
  ModelTraits traits;
  traits.family = "flux2";
  traits.heads = traits.kv_heads = c.heads;
  traits.head_dim = c.head_dim;
  traits.out_channels = c.patch_size * c.patch_size * c.out_channels;

  TraitsCollector add(traits);
  add.linear("x_embedder", h, c.in_channels, Tokens::image, no_bias);
  add.linear("context_embedder", h, c.joint_attention_dim, Tokens::text, no_bias);
  add.embedder("time_guidance_embed.timestep_embedder", h, c.timestep_channels, no_bias);
  if (c.guidance_embeds) add.embedder("time_guidance_embed.guidance_embedder", h, c.timestep_channels, no_bias);
  add.linear("double_stream_modulation_img.linear", 6 * h, h, Tokens::none, no_bias);
  add.linear("double_stream_modulation_txt.linear", 6 * h, h, Tokens::none, no_bias);
  add.linear("single_stream_modulation.linear", 3 * h, h, Tokens::none, no_bias);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    traits.attentions.push_back(fmt::format("transformer_blocks.{}.attn", i));
    double_block(add, fmt::format("transformer_blocks.{}", i), h, mlp, c.head_dim);
  }
  for (int64_t i = 0; i < c.num_single_layers; ++i) {
    traits.attentions.push_back(fmt::format("single_transformer_blocks.{}.attn", i));
    single_block(add, fmt::format("single_transformer_blocks.{}", i), h, mlp, c.head_dim);
  }
  add.linear("norm_out.linear", 2 * h, h, Tokens::none, no_bias);
  add.linear("proj_out", traits.out_channels, h, Tokens::image, no_bias);

  traits.tp_plan = shipped_tp_plan(h, mlp);
  add_token_inputs(traits);
  if (c.guidance_embeds) traits.batched_inputs["guidance"] = 1;
  return traits;
}

}  // namespace shardproof
