#include "core/flux1_config.hpp"

#include "core/config_reading.hpp"
#include "core/model_config.hpp"

namespace shardproof {

Flux1Config parse_flux1_config(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  check_class(reader, source, "FluxTransformer2DModel");
  Flux1Config config;
  config.patch_size = reader.integer("patch_size", 1, 1, 64);
  config.in_channels = reader.integer("in_channels", 64, 1, largest_width);
  config.out_channels = reader.integer("out_channels", config.in_channels, 1, largest_width);
  config.num_layers = reader.integer("num_layers", 19, 0, 1000);
  config.num_single_layers = reader.integer("num_single_layers", 38, 0, 1000);
  config.head_dim = reader.integer("attention_head_dim", 128, 2, 1024);
  config.heads = reader.integer("num_attention_heads", 24, 1, 1024);
  config.joint_attention_dim = reader.integer("joint_attention_dim", 4096, 1, largest_width);
  config.pooled_projection_dim = reader.integer("pooled_projection_dim", 768, 1, largest_width);
  config.guidance_embeds = reader.boolean("guidance_embeds", false);
  config.axes_dims_rope = read_axes<3>(reader, source, {16, 56, 56}, config.head_dim);
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

const std::map<std::string, Flux1Config>& flux1_presets() {
  static const std::map<std::string, Flux1Config> presets = [] {
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
    return std::map<std::string, Flux1Config>{{"flux1-tiny", tiny}, {"flux1-small", small}, {"flux1-dev", {}}};
  }();
  return presets;
}

Flux1Config flux1_preset(const std::string& name) { return find_preset(flux1_presets(), name); }

}  // namespace shardproof
