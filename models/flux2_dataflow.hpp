#pragma once

#include "core/dataflow.hpp"

#include <cstdint>

namespace shardproof {

/// What FLUX.2's steps depend on; the defaults are FLUX.2-dev's.
struct Flux2Shape {
  int64_t num_layers = 8, num_single_layers = 48;
  int64_t heads = 48, head_dim = 128;
  int64_t mlp_hidden = 18432;  ///< int(mlp_ratio * hidden)
  int64_t in_channels = 128, out_channels = 128, patch_size = 1;
  int64_t joint_attention_dim = 15360;
  int64_t timestep_channels = 256;
  bool guidance_embeds = true;
  int64_t hidden() const { return heads * head_dim; }
};

/// FLUX.2's steps for the static check of a plan (diffusers 0.42.1, Flux2Transformer2DModel): shared modulations, double
/// blocks with SwiGLU feed-forwards, single blocks with a fused QKV and MLP projection. No Linear has a bias.
Dataflow flux2_dataflow(const Flux2Shape& shape);

}  // namespace shardproof
