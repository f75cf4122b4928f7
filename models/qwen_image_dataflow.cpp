#include "models/qwen_image_dataflow.hpp"

#include "models/stream_dataflow.hpp"

namespace shardproof {
namespace {

using flow::Value;

Region entrance(const QwenImageConfig& c) {
  const int64_t h = c.hidden();
  RegionBuilder region("");
  region.output(region.linear(region.input("hidden_states", c.in_channels), {"img_in", h, c.in_channels}), "image stream");
  const Value text = region.norm(region.input("encoder_hidden_states", c.joint_attention_dim), "txt_norm", c.joint_attention_dim);
  region.output(region.linear(text, {"txt_in", h, c.joint_attention_dim}), "text stream");
  region.output(embed(region, region.input("timestep", 256), "time_text_embed.timestep_embedder", 256, h), "temb");
  return region.build();
}

/// Two sets of shift, scale and gate, from one Linear: {attention's, feed-forward's}.
std::vector<std::vector<Value>> modulation(RegionBuilder& region, const Value& temb, const std::string& name, int64_t h) {
  const Value all = region.linear(region.unary(temb, "silu"), {name + ".1", 6 * h, h});
  const auto halves = region.split(all, {3 * h, 3 * h}, "the chunk of " + name);
  return {region.split(halves[0], {h, h, h}, "the chunk of " + name), region.split(halves[1], {h, h, h}, "the chunk of " + name)};
}

Value modulated(RegionBuilder& region, const Value& x, const std::vector<Value>& set, const std::string& stream, int64_t h) {
  return region.modulate(region.norm(x, "", h), set[1], set[0], stream);
}

Region block(const QwenImageConfig& c) {
  const int64_t h = c.hidden();
  RegionBuilder region("transformer_blocks.{i}", c.num_layers);
  const Value image = region.input("image", h), text = region.input("text", h), temb = region.input("temb", h);
  const auto image_mod = modulation(region, temb, "img_mod", h), text_mod = modulation(region, temb, "txt_mod", h);
  const auto i = stream_heads(region, modulated(region, image, image_mod[0], "the image stream", h),
                              {"attn.to_q", "attn.to_k", "attn.to_v", "attn.norm_q", "attn.norm_k"}, h, c.head_dim, true);
  const auto t = stream_heads(region, modulated(region, text, text_mod[0], "the text stream", h),
                              {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.norm_added_q", "attn.norm_added_k"},
                              h, c.head_dim, true);
  const auto attended = joint_attention(region, i, t, "attn");
  const auto rest = [&](const Value& x, const Value& attention, const auto& mod, const char* out, const char* mlp,
                        const char* stream) {
    const Value y = region.gated_residual(x, mod[0][2], region.linear(attention, {out, h, h}), stream);
    const Value inner = gelu_feed_forward(region, modulated(region, y, mod[1], stream, h), mlp, h, 4 * h);
    return region.gated_residual(y, mod[1][2], inner, stream);
  };
  region.output(rest(image, attended[0], image_mod, "attn.to_out.0", "img_mlp", "the image stream"), "image stream");
  region.output(rest(text, attended[1], text_mod, "attn.to_add_out", "txt_mlp", "the text stream"), "text stream");
  return region.build();
}

}  // namespace

Dataflow qwen_image_dataflow(const QwenImageConfig& c) {
  return {{entrance(c), block(c), output_region(c.hidden(), c.patch_size * c.patch_size * c.out_channels, true)},
          {"transformer_blocks.{i}.img_mod", "transformer_blocks.{i}.txt_mod"}};
}

}  // namespace shardproof
