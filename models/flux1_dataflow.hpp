#pragma once

#include "core/dataflow.hpp"
#include "core/model_config.hpp"

namespace shardproof {

/// FLUX.1's steps for the static check of a plan (diffusers 0.42.1, FluxTransformer2DModel): embedders, double-stream and
/// single-stream blocks, the output. Its parameters are those of flux1_traits.
Dataflow flux1_dataflow(const Flux1Config& config);

}  // namespace shardproof
