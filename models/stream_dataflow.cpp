#include "models/stream_dataflow.hpp"

namespace shardproof {

StreamHeads stream_heads(RegionBuilder& region, const flow::Value& x, const StreamNames& names, int64_t hidden, int64_t head_dim,
                         bool bias) {
  const auto heads = [&](const std::string& module) {
    return region.heads(region.linear(x, {module, hidden, hidden, bias}), head_dim);
  };
  const auto rotated = [&](const std::string& module, const std::string& norm) {
    return region.linear_unary(region.norm(heads(module), norm, head_dim), "RoPE");
  };
  const flow::Value q = rotated(names.q, names.norm_q), k = rotated(names.k, names.norm_k);
  return {q, k, heads(names.v)};
}

std::vector<flow::Value> joint_attention(RegionBuilder& region, const StreamHeads& image, const StreamHeads& text,
                                         const std::string& module) {
  const auto joined = [&](const flow::Value& t, const flow::Value& i, const char* what) {
    return region.join_tokens({t, i}, std::string("the joint attention's ") + what);
  };
  const flow::Value q = joined(text.q, image.q, "query"), k = joined(text.k, image.k, "key"),
                    v = joined(text.v, image.v, "value");
  const flow::Value out = region.merge_heads(region.attention(q, k, v, module));
  return {region.slice_tokens(out, "the image stream's attention"), region.slice_tokens(out, "the text stream's attention")};
}

flow::Value gelu_feed_forward(RegionBuilder& region, const flow::Value& x, const std::string& name, int64_t hidden,
                              int64_t inner) {
  const flow::Value up = region.unary(region.linear(x, {name + ".net.0.proj", inner, hidden}), "gelu");
  return region.linear(up, {name + ".net.2", hidden, inner});
}

Region output_region(int64_t hidden, int64_t out, bool bias) {
  RegionBuilder region("");
  const auto x = region.input("hidden_states", hidden), temb = region.input("temb", hidden);
  const auto mod = region.split(region.linear(region.unary(temb, "silu"), {"norm_out.linear", 2 * hidden, hidden, bias}),
                                {hidden, hidden}, "the chunk of norm_out");
  const auto normed = region.modulate(region.norm(x, "", hidden), mod[0], mod[1], "the output");
  region.output(region.linear(normed, {"proj_out", out, hidden, bias}), "of the model");
  return region.build();
}

}  // namespace shardproof
