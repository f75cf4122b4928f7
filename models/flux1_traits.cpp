#include "models/flux1.hpp"

#include "core/error.hpp"
#include "models/traits_collector.hpp"

namespace shardproof {
namespace {

void double_block(TraitsCollector& add, const std::string& name, int64_t h, int64_t head_dim) {
  add.linear(name + ".norm1.linear", 6 * h, h, Tokens::none);
  add.linear(name + ".norm1_context.linear", 6 * h, h, Tokens::none);
  add.joint_attention(name, h, head_dim);
  add.linear(name + ".ff.net.0.proj", 4 * h, h, Tokens::image);
  add.linear(name + ".ff.net.2", h, 4 * h, Tokens::image);
  add.linear(name + ".ff_context.net.0.proj", 4 * h, h, Tokens::text);
  add.linear(name + ".ff_context.net.2", h, 4 * h, Tokens::text);
}

void single_block(TraitsCollector& add, const std::string& name, int64_t h, int64_t head_dim) {
  add.linear(name + ".norm.linear", 3 * h, h, Tokens::none);
  for (const char* projection : {"to_q", "to_k", "to_v"}) add.linear(name + ".attn." + projection, h, h, Tokens::joint);
  for (const char* norm : {"norm_q", "norm_k"}) add.norm(name + ".attn." + norm, head_dim);
  add.linear(name + ".proj_mlp", 4 * h, h, Tokens::joint);
  add.linear(name + ".proj_out", h, 5 * h, Tokens::joint);
}

std::map<std::string, Sharding> shipped_tp_plan(int64_t h) {
  const std::string two = "transformer_blocks.*.", one = "single_transformer_blocks.*.";
  std::map<std::string, Sharding> plan;
  add_joint_attention(plan);
  for (const char* name : {"ff", "ff_context"}) {
    plan[two + name + ".net.0.proj"] = Colwise{};
    plan[two + name + ".net.2"] = Rowwise{};
  }
  for (const char* name : {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}) plan[one + name] = Colwise{};
  plan[one + "proj_out"] = Rowwise{{h, 4 * h}, false};  // its input is [attention ; mlp], each sharded apart
  return plan;
}

}  // namespace

ModelTraits flux1_traits(const Flux1Config& c) {
  const int64_t h = c.hidden();
  ModelTraits traits;
  traits.family = "flux1";
  traits.heads = traits.kv_heads = c.heads;
  traits.head_dim = c.head_dim;
  traits.out_channels = c.patch_size * c.patch_size * c.out_channels;

  TraitsCollector add(traits);
  add.linear("x_embedder", h, c.in_channels, Tokens::image);
  add.linear("context_embedder", h, c.joint_attention_dim, Tokens::text);
  add.embedder("time_text_embed.timestep_embedder", h, 256);
  if (c.guidance_embeds) add.embedder("time_text_embed.guidance_embedder", h, 256);
  add.embedder("time_text_embed.text_embedder", h, c.pooled_projection_dim);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    traits.attentions.push_back(fmt::format("transformer_blocks.{}.attn", i));
    double_block(add, fmt::format("transformer_blocks.{}", i), h, c.head_dim);
  }
  for (int64_t i = 0; i < c.num_single_layers; ++i) {
    traits.attentions.push_back(fmt::format("single_transformer_blocks.{}.attn", i));
    single_block(add, fmt::format("single_transformer_blocks.{}", i), h, c.head_dim);
  }
  add.linear("norm_out.linear", 2 * h, h, Tokens::none);
  add.linear("proj_out", traits.out_channels, h, Tokens::image);

  traits.tp_plan = shipped_tp_plan(h);
  add_token_inputs(traits);
  traits.batched_inputs["pooled_projections"] = 2;
  if (c.guidance_embeds) traits.batched_inputs["guidance"] = 1;
  return traits;
}

}  // namespace shardproof
