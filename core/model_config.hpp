#pragma once

#include "core/error.hpp"
#include "core/flux1_config.hpp"
#include "core/flux2_config.hpp"
#include "core/json.hpp"
#include "core/qwen_image_config.hpp"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace shardproof {

/// The config of any model family.
using ModelConfig = std::variant<Flux1Config, Flux2Config, QwenImageConfig>;

/// Reads diffusers' config.json; its "_class_name" says which family (absent: FLUX.1). Input Error that names the field.
ModelConfig parse_model_config(const Json& json, const std::string& source);

/// A preset of any family by name. Unknown names: input Error listing them.
ModelConfig model_preset(const std::string& name);
/// Family by family, the small ones first.
std::vector<std::string> preset_names();
bool is_preset(const std::string& name);

/// The entry of one family's presets; otherwise an input Error that lists every family's.
template <class Config>
Config find_preset(const std::map<std::string, Config>& presets, const std::string& name) {
  const auto found = presets.find(name);
  if (found == presets.end()) fail_input("config", "unknown preset \"{}\"; accepted: {}", name, fmt::join(preset_names(), ", "));
  return found->second;
}

}  // namespace shardproof
