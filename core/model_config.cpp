#include "core/model_config.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardproof {
namespace {

constexpr int64_t largest = int64_t{1} << 20;  // far above any real width, far below overflow of products

const std::vector<std::pair<std::string, Flux1Config>>& presets() {
  static const std::vector<std::pair<std::string, Flux1Config>> list = [] {
    Flux1Config tiny;  // 2, 3, 4, 6 and 8 ranks divide 24 heads
    tiny.num_layers = 1;
    tiny.num_single_layers = 1;
    tiny.heads = 24;
    tiny.head_dim = 6;
    tiny.axes_dims_rope = {2, 2, 2};
    tiny.in_channels = tiny.out_channels = 16;
    tiny.joint_attention_dim = 64;
    tiny.pooled_projection_dim = 32;
    Flux1Config small;
    small.num_layers = 2;
    small.num_single_layers = 4;
    small.heads = 12;
    small.head_dim = 64;
    small.axes_dims_rope = {8, 28, 28};
    small.joint_attention_dim = 1024;
    return std::vector<std::pair<std::string, Flux1Config>>{{"flux1-tiny", tiny}, {"flux1-small", small}, {"flux1-dev", {}}};
  }();
  return list;
}

void check(const Flux1Config& config, const std::string& source) {
  const auto& axes = config.axes_dims_rope;
  const int64_t sum = std::accumulate(axes.begin(), axes.end(), int64_t{0});
  if (sum != config.head_dim || std::any_of(axes.begin(), axes.end(), [](int64_t a) { return a < 2 || a % 2 != 0; }))
    fail_input("config", "{}: \"axes_dims_rope\" is [{}]; accepted: three even numbers whose sum is attention_head_dim {}", source,
               fmt::join(axes, ", "), config.head_dim);
}

}  // namespace

Flux1Config parse_flux1_config(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  const auto model_class = reader.string("_class_name", "FluxTransformer2DModel");
  if (model_class != "FluxTransformer2DModel")
    fail_input("config", "{}: \"_class_name\" is \"{}\"; accepted: FluxTransformer2DModel", source, model_class);
  if (reader.has("quantization_config"))
    fail_input("config", "{}: \"quantization_config\" is set; accepted: unquantised float weights", source);
  Flux1Config config;
  config.patch_size = reader.integer("patch_size", 1, 1, 64);
  config.in_channels = reader.integer("in_channels", 64, 1, largest);
  config.out_channels = reader.integer("out_channels", config.in_channels, 1, largest);
  config.num_layers = reader.integer("num_layers", 19, 0, 1000);
  config.num_single_layers = reader.integer("num_single_layers", 38, 0, 1000);
  config.head_dim = reader.integer("attention_head_dim", 128, 2, 1024);
  config.heads = reader.integer("num_attention_heads", 24, 1, 1024);
  config.joint_attention_dim = reader.integer("joint_attention_dim", 4096, 1, largest);
  config.pooled_projection_dim = reader.integer("pooled_projection_dim", 768, 1, largest);
  config.guidance_embeds = reader.boolean("guidance_embeds", false);
  const auto axes = reader.integers("axes_dims_rope", std::vector<int64_t>{16, 56, 56});
  if (axes.size() != 3) fail_input("config", "{}: \"axes_dims_rope\" has {} entries; accepted: 3", source, axes.size());
  std::copy(axes.begin(), axes.end(), config.axes_dims_rope.begin());
  check(config, source);
  return config;
}

Json to_json(const Flux1Config& c) {
  return {{"_class_name", "FluxTransformer2DModel"},
          {"attention_head_dim", c.head_dim},
          {"axes_dims_rope", c.axes_dims_rope},
          {"guidance_embeds", c.guidance_embeds},
          {"in_channels", c.in_channels},
          {"joint_attention_dim", c.joint_attention_dim},
          {"num_attention_heads", c.heads},
          {"num_layers", c.num_layers},
          {"num_single_layers", c.num_single_layers},
          {"out_channels", c.out_channels},
          {"patch_size", c.patch_size},
          {"pooled_projection_dim", c.pooled_projection_dim}};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

bool is_preset(const std::string& name) {
  return std::any_of(presets().begin(), presets().end(), [&](const auto& preset) { return preset.first == name; });
}

Flux1Config flux1_preset(const std::string& name) {
  for (const auto& [known, config] : presets())
    if (known == name) return config;
  fail_input("config", "unknown preset \"{}\"; accepted: {}", name, fmt::join(preset_names(), ", "));
}

}  // namespace shardproof
