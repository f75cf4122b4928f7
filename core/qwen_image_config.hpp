#pragma once

#include "core/json.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace shardproof {

/// The fields of a diffusers QwenImageTransformer2DModel config.json that decide shapes and computation.
/// The defaults are Qwen-Image's, and diffusers'.
struct QwenImageConfig {
  int64_t patch_size = 2;
  int64_t in_channels = 64;
  int64_t out_channels = 16;  ///< of one latent; the output holds patch_size² of them
  int64_t num_layers = 60;    ///< double-stream blocks; there are no others
  int64_t head_dim = 128;
  int64_t heads = 24;
  int64_t joint_attention_dim = 3584;                 ///< width of encoder_hidden_states
  std::array<int64_t, 3> axes_dims_rope{16, 56, 56};  ///< their sum is head_dim

  int64_t hidden() const { return heads * head_dim; }
  int64_t mlp_hidden() const { return 4 * hidden(); }
  friend bool operator==(const QwenImageConfig&, const QwenImageConfig&) = default;
};

/// Reads diffusers' config.json. Input Error that names the field on a wrong class, type or value, and on the variants that
/// are not modelled: zero_cond_t, use_additional_t_cond, use_layer3d_rope, guidance_embeds.
QwenImageConfig parse_qwen_image_config(const Json& json, const std::string& source);
Json to_json(const QwenImageConfig& config);

/// qwen-image-tiny, qwen-image, by name.
const std::map<std::string, QwenImageConfig>& qwen_image_presets();
/// One of them. Unknown names: input Error listing them.
QwenImageConfig qwen_image_preset(const std::string& name);

}  // namespace shardproof
