#pragma once

#include "core/dataflow.hpp"
#include "core/model_config.hpp"

namespace shardproof {

/// Qwen-Image's steps for the static check of a plan (diffusers 0.42.1, QwenImageTransformer2DModel): double-stream blocks
/// throughout, nothing fused. A block's modulations are Sequentials, which a plan's `*` cannot run over.
Dataflow qwen_image_dataflow(const QwenImageConfig& config);

}  // namespace shardproof
