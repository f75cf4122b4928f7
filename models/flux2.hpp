#pragma once

#include "core/model_config.hpp"
#include "models/model.hpp"

namespace shardproof {

/// What strategies may know of FLUX.2: its Linears, parameters, and the plans that diffusers ships with
/// Flux2Transformer2DModel (0.42.1). The plan's packed entries carry the block sizes that diffusers stores with the Linears.
ModelTraits flux2_traits(const Flux2Config& config);

/// FLUX.2 with diffusers' module and argument names; no Linear has a bias. Inputs (B batch, S image and T text tokens of this
/// rank):
///   hidden_states [B, S, in_channels]     encoder_hidden_states [B, T, joint_attention_dim]
///   timestep [B], sigma in [0, 1]         guidance [B], exactly when the config has guidance_embeds
///   img_ids [S, 4]   txt_ids [T, 4]       without diffusers' batch dim, of which only the first item is read there
///   encoder_hidden_states_mask, may be absent: see models/key_mask.hpp
/// Output: the predicted velocity [B, S, patch_size² · out_channels].
/// It runs on whatever tokens and heads the rank holds: head counts and block widths follow from the Linears' local widths.
std::unique_ptr<Model> make_flux2(const Flux2Config& config, ModuleSource& source);

ModelSpec flux2_spec(const std::string& name, const Flux2Config& config);

}  // namespace shardproof
