#include "models/flux1.hpp"

#include "core/error.hpp"

namespace shardproof {
namespace {

class Collector {
 public:
  explicit Collector(ModelTraits& traits) : traits_(traits) {}
  void linear(const std::string& name, int64_t out, int64_t in, Tokens tokens) {
    traits_.linears.push_back({name, out, in, tokens});
    traits_.parameters[name + ".weight"] = {out, in};
    traits_.parameters[name + ".bias"] = {out};
  }
  void vector(const std::string& name, int64_t size) { traits_.parameters[name] = {size}; }

 private:
  ModelTraits& traits_;
};

void double_block(Collector& add, const std::string& name, int64_t h, int64_t head_dim) {
  const std::string attn = name + ".attn.";
  add.linear(name + ".norm1.linear", 6 * h, h, Tokens::none);
  add.linear(name + ".norm1_context.linear", 6 * h, h, Tokens::none);
  for (const char* projection : {"to_q", "to_k", "to_v", "to_out.0"}) add.linear(attn + projection, h, h, Tokens::image);
  for (const char* projection : {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"}) add.linear(attn + projection, h, h, Tokens::text);
  for (const char* norm : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"}) add.vector(attn + norm + ".weight", head_dim);
  add.linear(name + ".ff.net.0.proj", 4 * h, h, Tokens::image);
  add.linear(name + ".ff.net.2", h, 4 * h, Tokens::image);
  add.linear(name + ".ff_context.net.0.proj", 4 * h, h, Tokens::text);
  add.linear(name + ".ff_context.net.2", h, 4 * h, Tokens::text);
}

void single_block(Collector& add, const std::string& name, int64_t h, int64_t head_dim) {
  add.linear(name + ".norm.linear", 3 * h, h, Tokens::none);
  for (const char* projection : {"to_q", "to_k", "to_v"}) add.linear(name + ".attn." + projection, h, h, Tokens::joint);
  for (const char* norm : {"norm_q", "norm_k"}) add.vector(name + ".attn." + norm + ".weight", head_dim);
  add.linear(name + ".proj_mlp", 4 * h, h, Tokens::joint);
  add.linear(name + ".proj_out", h, 5 * h, Tokens::joint);
}

std::map<std::string, Sharding> shipped_tp_plan(int64_t h) {
  const std::string two = "transformer_blocks.*.", one = "single_transformer_blocks.*.";
  std::map<std::string, Sharding> plan;
  for (const char* name : {"attn.to_q", "attn.to_k", "attn.to_v", "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "ff.net.0.proj",
                           "ff_context.net.0.proj"})
    plan[two + name] = Colwise{};
  for (const char* name : {"attn.to_out.0", "attn.to_add_out", "ff.net.2", "ff_context.net.2"}) plan[two + name] = Rowwise{};
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

  Collector add(traits);
  add.linear("x_embedder", h, c.in_channels, Tokens::image);
  add.linear("context_embedder", h, c.joint_attention_dim, Tokens::text);
  for (const auto& [name, in] : {std::pair<std::string, int64_t>{"timestep", 256}, {"guidance", 256}, {"text", c.pooled_projection_dim}}) {
    if (name == "guidance" && !c.guidance_embeds) continue;
    add.linear(fmt::format("time_text_embed.{}_embedder.linear_1", name), h, in, Tokens::none);
    add.linear(fmt::format("time_text_embed.{}_embedder.linear_2", name), h, h, Tokens::none);
  }
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
  traits.cp_inputs = {{"hidden_states", {1, 3}}, {"encoder_hidden_states", {1, 3}}, {"img_ids", {0, 2}}, {"txt_ids", {0, 2}},
                      {"encoder_hidden_states_mask", {1, 2}}};
  traits.batched_inputs = {{"hidden_states", 3}, {"encoder_hidden_states", 3}, {"pooled_projections", 2}, {"timestep", 1},
                           {"encoder_hidden_states_mask", 2}};
  traits.optional_inputs = {"encoder_hidden_states_mask"};
  if (c.guidance_embeds) traits.batched_inputs["guidance"] = 1;
  traits.cp_outputs = {{"proj_out", {1, 3}}};
  return traits;
}

}  // namespace shardproof
