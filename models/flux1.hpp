#pragma once

#include "core/model_config.hpp"
#include "models/model.hpp"

namespace shardproof {

/// What strategies may know of FLUX.1: its Linears, parameters, and the plans that diffusers ships with
/// FluxTransformer2DModel (0.42.1).
ModelTraits flux1_traits(const Flux1Config& config);

/// FLUX.1 with diffusers' module and argument names. Inputs (B batch, S image and T text tokens of this rank):
///   hidden_states [B, S, in_channels]       encoder_hidden_states [B, T, joint_attention_dim]
///   pooled_projections [B, pooled]          timestep [B], sigma in [0, 1]
///   img_ids [S, 3]   txt_ids [T, 3]         guidance [B], exactly when the config has guidance_embeds
/// Output: the predicted velocity [B, S, patch_size² · out_channels].
/// It runs on whatever tokens and heads the rank holds: head counts follow from the Linears' local widths.
std::unique_ptr<Model> make_flux1(const Flux1Config& config, ModuleSource& source);

ModelSpec flux1_spec(const std::string& name, const Flux1Config& config);

}  // namespace shardproof
