#include "harness/planned_model.hpp"

#include "core/error.hpp"
#include "core/model_config.hpp"
#include "models/flux1.hpp"
#include "models/flux1_dataflow.hpp"
#include "models/flux2.hpp"
#include "models/flux2_dataflow.hpp"
#include "models/qwen_image.hpp"
#include "models/qwen_image_dataflow.hpp"

#include <filesystem>

namespace shardproof {
namespace {

PlannedModel planned(const std::string& name, const Flux1Config& c) { return {name, flux1_dataflow(c), flux1_traits(c).tp_plan}; }

PlannedModel planned(const std::string& name, const Flux2Config& c) { return {name, flux2_dataflow(c), flux2_traits(c).tp_plan}; }
PlannedModel planned(const std::string& name, const QwenImageConfig& c) {
  return {name, qwen_image_dataflow(c), qwen_image_traits(c).tp_plan};
}

ModelTraits traits_of(const Flux1Config& c) { return flux1_traits(c); }
ModelTraits traits_of(const Flux2Config& c) { return flux2_traits(c); }
ModelTraits traits_of(const QwenImageConfig& c) { return qwen_image_traits(c); }

ModelConfig read_config(const std::string& model) {
  if (is_preset(model)) return model_preset(model);
  const std::filesystem::path file = std::filesystem::path(model) / "config.json";
  if (!std::filesystem::exists(file))
    fail_input("model", "\"{}\" is neither a preset nor a folder with config.json; accepted: a diffusers folder, or {}", model,
               fmt::join(preset_names(), ", "));
  return parse_model_config(read_json(file), file.string());
}

}  // namespace

ModelTraits model_traits(const ModelConfig& config) {
  return std::visit([](const auto& c) { return traits_of(c); }, config);
}

ModelTraits load_model_traits(const std::string& model) { return model_traits(read_config(model)); }

PlannedModel load_planned_model(const std::string& model) {
  const auto name = is_preset(model) ? model : std::filesystem::weakly_canonical(model).filename().string();
  return std::visit([&](const auto& config) { return planned(name, config); }, read_config(model));
}

}  // namespace shardproof
