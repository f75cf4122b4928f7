#pragma once

#include "core/model_config.hpp"
#include "models/model.hpp"

namespace shardproof {

/// What strategies may know of Qwen-Image: its Linears, parameters, and the plans that diffusers ships with
/// QwenImageTransformer2DModel (0.42.1). diffusers cuts tokens and rotations inside the model; here both are inputs, so they
/// are cut at its entry, which is the same cut.
ModelTraits qwen_image_traits(const QwenImageConfig& config);

/// Qwen-Image with diffusers' module and argument names. Inputs (B batch, S image and T text tokens of this rank):
///   hidden_states [B, S, in_channels]     encoder_hidden_states [B, T, joint_attention_dim]
///   timestep [B], sigma in [0, 1]
///   img_ids [S, 3]   txt_ids [T, 3]       positions (frame, row, column), in place of diffusers' img_shapes: image rows and
///                                         columns counted from the middle, text t at max(rows/2, columns/2) + t on all axes
///   encoder_hidden_states_mask, may be absent: see models/key_mask.hpp. It hides text keys and moves no position.
/// Output: the predicted velocity [B, S, patch_size² · out_channels].
/// It runs on whatever tokens and heads the rank holds: head counts follow from the Linears' local widths.
std::unique_ptr<Model> make_qwen_image(const QwenImageConfig& config, ModuleSource& source);

ModelSpec qwen_image_spec(const std::string& name, const QwenImageConfig& config);

}  // namespace shardproof
