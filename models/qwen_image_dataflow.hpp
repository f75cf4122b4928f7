#pragma once

#include "core/dataflow.hpp"

#include <cstdint>

namespace shardproof {

/// What Qwen-Image's steps depend on; the defaults are Qwen-Image's.
struct QwenImageShape {
  int64_t num_layers = 60;
  int64_t heads = 24, head_dim = 128;
  int64_t in_channels = 64, out_channels = 16, patch_size = 2;
  int64_t joint_attention_dim = 3584;
  int64_t hidden() const { return heads * head_dim; }
};

/// Qwen-Image's steps for the static check of a plan (diffusers 0.42.1, QwenImageTransformer2DModel): double-stream blocks
/// throughout, nothing fused. A block's modulations are Sequentials, which a plan's `*` cannot run over.
Dataflow qwen_image_dataflow(const QwenImageShape& shape);

}  // namespace shardproof
