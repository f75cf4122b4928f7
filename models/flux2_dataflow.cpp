#include "models/flux2_dataflow.hpp"

#include "models/stream_dataflow.hpp"

namespace shardproof {
namespace {

using flow::Value;

/// A modulation shared by all blocks: its Linear runs before them, they split it.
void shared_modulation(RegionBuilder& region, const Value& temb, const std::string& name, int64_t h, int64_t parts) {
  region.output(region.linear(region.unary(temb, "silu"), {name + ".linear", parts * h, h, false}), name);
}

Region entrance(const Flux2Config& c) {
  const int64_t h = c.hidden(), channels = c.timestep_channels;
  RegionBuilder region("");
  Value temb = embed(region, region.input("timestep", channels), "time_guidance_embed.timestep_embedder", channels, h, false);
  if (c.guidance_embeds)
    temb = region.add(
        temb, embed(region, region.input("guidance", channels), "time_guidance_embed.guidance_embedder", channels, h, false),
        "the sum of embeddings");
  shared_modulation(region, temb, "double_stream_modulation_img", h, 6);
  shared_modulation(region, temb, "double_stream_modulation_txt", h, 6);
  shared_modulation(region, temb, "single_stream_modulation", h, 3);
  region.output(temb, "temb");
  region.output(region.linear(region.input("hidden_states", c.in_channels), {"x_embedder", h, c.in_channels, false}),
                "image stream");
  region.output(region.linear(region.input("encoder_hidden_states", c.joint_attention_dim),
                              {"context_embedder", h, c.joint_attention_dim, false}),
                "text stream");
  return region.build();
}

/// silu(gate) · up, both made by one Linear as [gate | up].
Value swiglu(RegionBuilder& region, const Value& fused, int64_t mlp, const std::string& label) {
  const auto halves = region.split(fused, {mlp, mlp}, label);
  return region.multiply(region.unary(halves[0], "silu"), halves[1], "gate × up");
}

Value feed_forward(RegionBuilder& region, const Value& x, const std::string& name, int64_t h, int64_t mlp) {
  const Value fused = region.linear(x, {name + ".linear_in", 2 * mlp, h, false});
  return region.linear(swiglu(region, fused, mlp, "the SwiGLU of " + name), {name + ".linear_out", h, mlp, false});
}

/// What follows the attention in one stream: its residual, then the feed-forward'c.
Value rest(RegionBuilder& region, const Value& x, const Value& attended, const std::vector<Value>& mod, const std::string& out,
           const std::string& ff, const std::string& stream, const Flux2Config& c) {
  const int64_t h = c.hidden();
  const Value y = region.gated_residual(x, mod[2], region.linear(attended, {out, h, h, false}), stream);
  const Value normed = region.modulate(region.norm(y, "", h), mod[4], mod[3], stream);
  return region.gated_residual(y, mod[5], feed_forward(region, normed, ff, h, c.mlp_hidden()), stream);
}

Region double_block(const Flux2Config& c) {
  const int64_t h = c.hidden();
  const std::vector<int64_t> six(6, h);
  RegionBuilder region("transformer_blocks.{i}", c.num_layers);
  const Value image = region.input("image", h), text = region.input("text", h);
  const auto image_mod = region.split(region.input("double_stream_modulation_img", 6 * h), six, "the chunk of the modulation");
  const auto text_mod = region.split(region.input("double_stream_modulation_txt", 6 * h), six, "the chunk of the modulation");
  const Value image_in = region.modulate(region.norm(image, "", h), image_mod[1], image_mod[0], "the image stream");
  const Value text_in = region.modulate(region.norm(text, "", h), text_mod[1], text_mod[0], "the text stream");
  const auto i =
      stream_heads(region, image_in, {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"}, h, c.head_dim, false);
  const auto t = stream_heads(region, text_in,
                              {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.norm_added_q", "attn.norm_added_k"},
                              h, c.head_dim, false);
  const auto attended = joint_attention(region, i, t, "attn");
  region.output(rest(region, image, attended[0], image_mod, "attn.to_out.0", "ff", "the image stream", c), "image stream");
  region.output(rest(region, text, attended[1], text_mod, "attn.to_add_out", "ff_context", "the text stream", c), "text stream");
  return region.build();
}

Region single_block(const Flux2Config& c) {
  const int64_t h = c.hidden(), mlp = c.mlp_hidden();
  RegionBuilder region("single_transformer_blocks.{i}", c.num_single_layers);
  const Value tokens = region.input("tokens", h);
  const auto mod = region.split(region.input("single_stream_modulation", 3 * h), {h, h, h}, "the chunk of the modulation");
  const Value x = region.modulate(region.norm(tokens, "", h), mod[1], mod[0], "the tokens");
  const Value fused = region.linear(x, {"attn.to_qkv_mlp_proj", 3 * h + 2 * mlp, h, false, {h, h, h, mlp, mlp}, {}});
  const auto qkv_mlp = region.split(fused, {3 * h, 2 * mlp}, "the split into QKV and MLP");
  const auto qkv = region.split(qkv_mlp[0], {h, h, h}, "the chunk into query, key and value");
  const auto rotated = [&](const Value& part, const char* norm) {
    return region.linear_unary(region.norm(region.heads(part, c.head_dim), norm, c.head_dim), "RoPE");
  };
  const Value q = rotated(qkv[0], "attn.norm_q"), k = rotated(qkv[1], "attn.norm_k"), v = region.heads(qkv[2], c.head_dim);
  const Value attended = region.merge_heads(region.attention(q, k, v, "attn"));
  const Value gated = swiglu(region, qkv_mlp[1], mlp, "the SwiGLU of attn");
  const Value out = region.linear(region.concat({attended, gated}, "the concatenation of attention and MLP"),
                                  {"attn.to_out", h, h + mlp, false, {}, {h, mlp}});
  region.output(region.gated_residual(tokens, mod[2], out, "the tokens"), "tokens");
  return region.build();
}

}  // namespace

Dataflow flux2_dataflow(const Flux2Config& c) {
  return {{entrance(c), double_block(c), single_block(c),
           output_region(c.hidden(), c.patch_size * c.patch_size * c.out_channels, false)},
          {}};
}

}  // namespace shardproof
