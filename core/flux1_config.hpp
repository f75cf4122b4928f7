#pragma once

#include "core/json.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace shardproof {

/// The fields of a diffusers FluxTransformer2DModel config.json that decide shapes and computation.
/// The defaults are FLUX.1-dev's.
struct Flux1Config {
  int64_t patch_size = 1;
  int64_t in_channels = 64;
  int64_t out_channels = 64;
  int64_t num_layers = 19;         ///< double-stream blocks
  int64_t num_single_layers = 38;  ///< single-stream blocks
  int64_t head_dim = 128;
  int64_t heads = 24;
  int64_t joint_attention_dim = 4096;  ///< width of encoder_hidden_states
  int64_t pooled_projection_dim = 768;
  bool guidance_embeds = true;
  std::array<int64_t, 3> axes_dims_rope{16, 56, 56};  ///< their sum is head_dim

  int64_t hidden() const { return heads * head_dim; }
  int64_t mlp_hidden() const { return 4 * hidden(); }
  friend bool operator==(const Flux1Config&, const Flux1Config&) = default;
};

/// Reads diffusers' config.json. Input Error that names the field on a wrong class, type or value.
Flux1Config parse_flux1_config(const Json& json, const std::string& source);
Json to_json(const Flux1Config& config);

/// flux1-tiny, flux1-small, flux1-dev, by name.
const std::map<std::string, Flux1Config>& flux1_presets();
/// One of them. Unknown names: input Error listing them.
Flux1Config flux1_preset(const std::string& name);

}  // namespace shardproof
