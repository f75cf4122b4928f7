#pragma once

#include "core/dataflow.hpp"
#include "core/model_config.hpp"

namespace shardproof {

/// FLUX.2's steps for the static check of a plan (diffusers 0.42.1, Flux2Transformer2DModel): shared modulations, double
/// blocks with SwiGLU feed-forwards, single blocks with a fused QKV and MLP projection. No Linear has a bias.
Dataflow flux2_dataflow(const Flux2Config& config);

}  // namespace shardproof
