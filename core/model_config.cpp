#include "core/model_config.hpp"

#include <algorithm>

namespace shardproof {

ModelConfig parse_model_config(const Json& json, const std::string& source) {
  const auto family = JsonReader(json, source).string("_class_name", "FluxTransformer2DModel");
  if (family == "FluxTransformer2DModel") return parse_flux1_config(json, source);
  if (family == "Flux2Transformer2DModel") return parse_flux2_config(json, source);
  if (family == "QwenImageTransformer2DModel") return parse_qwen_image_config(json, source);
  fail_input(
      "config",
      "{}: \"_class_name\" is \"{}\"; accepted: FluxTransformer2DModel, Flux2Transformer2DModel, QwenImageTransformer2DModel",
      source, family);
}

ModelConfig model_preset(const std::string& name) {
  if (flux1_presets().count(name)) return flux1_preset(name);
  if (flux2_presets().count(name)) return flux2_preset(name);
  return qwen_image_preset(name);
}

std::vector<std::string> preset_names() {
  return {"flux1-tiny", "flux1-small", "flux1-dev", "flux2-tiny", "flux2-dev", "qwen-image-tiny", "qwen-image"};
}

bool is_preset(const std::string& name) {
  const auto names = preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace shardproof
