#include "models/flux1_dataflow.hpp"

#include "models/stream_dataflow.hpp"

namespace shardproof {
namespace {

using flow::Value;

Region entrance(const Flux1Config& c) {
  const int64_t h = c.hidden();
  RegionBuilder region("");
  region.output(region.linear(region.input("hidden_states", c.in_channels), {"x_embedder", h, c.in_channels}), "image stream");
  region.output(
      region.linear(region.input("encoder_hidden_states", c.joint_attention_dim), {"context_embedder", h, c.joint_attention_dim}),
      "text stream");
  Value temb = embed(region, region.input("timestep", 256), "time_text_embed.timestep_embedder", 256, h);
  if (c.guidance_embeds)
    temb = region.add(temb, embed(region, region.input("guidance", 256), "time_text_embed.guidance_embedder", 256, h),
                      "the sum of embeddings");
  const Value text = embed(region, region.input("pooled_projections", c.pooled_projection_dim), "time_text_embed.text_embedder",
                           c.pooled_projection_dim, h);
  region.output(region.add(temb, text, "the sum of embeddings"), "temb");
  return region.build();
}

std::vector<Value> modulation(RegionBuilder& region, const Value& temb, const std::string& module, int64_t h, size_t parts) {
  const Value all = region.linear(region.unary(temb, "silu"), {module, static_cast<int64_t>(parts) * h, h});
  return region.split(all, std::vector<int64_t>(parts, h), "the chunk of " + module);
}

/// What follows the attention in one stream: its residual, then the feed-forward's.
Value rest(RegionBuilder& region, const Value& x, const Value& attended, const std::vector<Value>& mod, const std::string& out,
           const std::string& feed_forward, const std::string& stream, const Flux1Config& c) {
  const int64_t h = c.hidden();
  const Value y = region.gated_residual(x, mod[2], region.linear(attended, {out, h, h}), stream);
  const Value normed = region.modulate(region.norm(y, "", h), mod[4], mod[3], stream);
  return region.gated_residual(y, mod[5], gelu_feed_forward(region, normed, feed_forward, h, c.mlp_hidden()), stream);
}

Region double_block(const Flux1Config& c) {
  const int64_t h = c.hidden();
  RegionBuilder region("transformer_blocks.{i}", c.num_layers);
  const Value image = region.input("image", h), text = region.input("text", h), temb = region.input("temb", h);
  const auto image_mod = modulation(region, temb, "norm1.linear", h, 6),
             text_mod = modulation(region, temb, "norm1_context.linear", h, 6);
  const Value image_in = region.modulate(region.norm(image, "", h), image_mod[1], image_mod[0], "the image stream");
  const Value text_in = region.modulate(region.norm(text, "", h), text_mod[1], text_mod[0], "the text stream");
  const auto i =
      stream_heads(region, image_in, {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"}, h, c.head_dim, true);
  const auto t = stream_heads(region, text_in,
                              {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.norm_added_q", "attn.norm_added_k"},
                              h, c.head_dim, true);
  const auto attended = joint_attention(region, i, t, "attn");
  region.output(rest(region, image, attended[0], image_mod, "attn.to_out.0", "ff", "the image stream", c), "image stream");
  region.output(rest(region, text, attended[1], text_mod, "attn.to_add_out", "ff_context", "the text stream", c), "text stream");
  return region.build();
}

Region single_block(const Flux1Config& c) {
  const int64_t h = c.hidden(), mlp = c.mlp_hidden();
  RegionBuilder region("single_transformer_blocks.{i}", c.num_single_layers);
  const Value joint = region.input("tokens", h), temb = region.input("temb", h);
  const auto mod = modulation(region, temb, "norm.linear", h, 3);
  const Value x = region.modulate(region.norm(joint, "", h), mod[1], mod[0], "the tokens");
  const auto heads =
      stream_heads(region, x, {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"}, h, c.head_dim, true);
  const Value attended = region.merge_heads(region.attention(heads.q, heads.k, heads.v, "attn"));
  const Value up = region.unary(region.linear(x, {"proj_mlp", mlp, h}), "gelu");
  const Value out = region.linear(region.concat({attended, up}, "the concatenation of attention and MLP"),
                                  {"proj_out", h, h + mlp, true, {}, {h, mlp}});
  region.output(region.gated_residual(joint, mod[2], out, "the tokens"), "tokens");
  return region.build();
}

}  // namespace

Dataflow flux1_dataflow(const Flux1Config& c) {
  return {{entrance(c), double_block(c), single_block(c),
           output_region(c.hidden(), c.patch_size * c.patch_size * c.out_channels, true)},
          {}};
}

}  // namespace shardproof
