#pragma once

#include "core/region_builder.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// Parts that the double-stream models share, written as steps of a Region.

/// The projections, norms and heads of one token stream.
struct StreamNames {
  std::string q, k, v, norm_q, norm_k;
};

struct StreamHeads {
  flow::Value q, k, v;
};

/// x [.., hidden] → q, k, v in heads, q and k normed over each head and rotated.
StreamHeads stream_heads(RegionBuilder& region, const flow::Value& x, const StreamNames& names, int64_t hidden, int64_t head_dim,
                         bool bias);

/// One attention over the tokens of both streams: [text ; image] → {image, text}, each [.., hidden].
std::vector<flow::Value> joint_attention(RegionBuilder& region, const StreamHeads& image, const StreamHeads& text,
                                         const std::string& module);

/// The two Linears of a GELU feed-forward: `NAME.net.0.proj` and `NAME.net.2`.
flow::Value gelu_feed_forward(RegionBuilder& region, const flow::Value& x, const std::string& name, int64_t hidden,
                              int64_t inner);

/// The scale and shift of an AdaLayerNormContinuous, and the last Linear.
Region output_region(int64_t hidden, int64_t out, bool bias);

}  // namespace shardproof
