#pragma once

#include "core/json.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace shardproof {

/// The fields of a diffusers Flux2Transformer2DModel config.json that decide shapes and computation.
/// The defaults are FLUX.2-dev's, and diffusers'.
struct Flux2Config {
  int64_t patch_size = 1;
  int64_t in_channels = 128;
  int64_t out_channels = 128;
  int64_t num_layers = 8;          ///< double-stream blocks
  int64_t num_single_layers = 48;  ///< single-stream blocks
  int64_t head_dim = 128;
  int64_t heads = 48;
  int64_t joint_attention_dim = 15360;  ///< width of encoder_hidden_states
  int64_t timestep_channels = 256;      ///< "timestep_guidance_channels", width of the sinusoids
  double mlp_ratio = 3;
  std::array<int64_t, 4> axes_dims_rope{32, 32, 32, 32};  ///< their sum is head_dim
  double rope_theta = 2000;
  double eps = 1e-6;  ///< of every norm
  bool guidance_embeds = true;

  int64_t hidden() const { return heads * head_dim; }
  /// Width between the Linears of a feed-forward, rounded down; gate and up are this wide each.
  int64_t mlp_hidden() const { return static_cast<int64_t>(static_cast<double>(hidden()) * mlp_ratio); }
  friend bool operator==(const Flux2Config&, const Flux2Config&) = default;
};

/// Reads diffusers' config.json. Input Error that names the field on a wrong class, type or value.
Flux2Config parse_flux2_config(const Json& json, const std::string& source);
Json to_json(const Flux2Config& config);

/// flux2-tiny, flux2-dev, by name.
const std::map<std::string, Flux2Config>& flux2_presets();
/// One of them. Unknown names: input Error listing them.
Flux2Config flux2_preset(const std::string& name);

}  // namespace shardproof
