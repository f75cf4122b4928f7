#include "core/flux2_config.hpp"

#include "core/config_reading.hpp"
#include "core/model_config.hpp"

namespace shardproof {

Flux2Config parse_flux2_config(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  check_class(reader, source, "Flux2Transformer2DModel");
  Flux2Config config;
  config.patch_size = reader.integer("patch_size", 1, 1, 64);
  config.in_channels = reader.integer("in_channels", 128, 1, largest_width);
  config.out_channels = reader.integer("out_channels", config.in_channels, 1, largest_width);
  config.num_layers = reader.integer("num_layers", 8, 0, 1000);
  config.num_single_layers = reader.integer("num_single_layers", 48, 0, 1000);
  config.head_dim = reader.integer("attention_head_dim", 128, 2, 1024);
  config.heads = reader.integer("num_attention_heads", 48, 1, 1024);
  config.joint_attention_dim = reader.integer("joint_attention_dim", 15360, 1, largest_width);
  config.timestep_channels = reader.integer("timestep_guidance_channels", 256, 2, largest_width);
  if (config.timestep_channels % 2 != 0)
    fail_input("config", "{}: \"timestep_guidance_channels\" is {}; accepted: an even number", source, config.timestep_channels);
  config.mlp_ratio = positive_number(reader, source, "mlp_ratio", 3, 64);
  if (config.mlp_hidden() < 1)
    fail_input("config", "{}: \"mlp_ratio\" {} leaves a feed-forward of width 0; accepted: at least one feature", source,
               config.mlp_ratio);
  config.axes_dims_rope = read_axes<4>(reader, source, {32, 32, 32, 32}, config.head_dim);
  config.rope_theta = positive_number(reader, source, "rope_theta", 2000, 1e9);
  config.eps = positive_number(reader, source, "eps", 1e-6, 1);
  config.guidance_embeds = reader.boolean("guidance_embeds", true);
  return config;
}

Json to_json(const Flux2Config& c) {
  return {{"_class_name", "Flux2Transformer2DModel"},
          {"attention_head_dim", c.head_dim},
          {"axes_dims_rope", c.axes_dims_rope},
          {"eps", c.eps},
          {"guidance_embeds", c.guidance_embeds},
          {"in_channels", c.in_channels},
          {"joint_attention_dim", c.joint_attention_dim},
          {"mlp_ratio", c.mlp_ratio},
          {"num_attention_heads", c.heads},
          {"num_layers", c.num_layers},
          {"num_single_layers", c.num_single_layers},
          {"out_channels", c.out_channels},
          {"patch_size", c.patch_size},
          {"rope_theta", c.rope_theta},
          {"timestep_guidance_channels", c.timestep_channels}};
}

const std::map<std::string, Flux2Config>& flux2_presets() {
  static const std::map<std::string, Flux2Config> presets = [] {
    Flux2Config tiny;  // 2, 3, 4, 6 and 8 ranks divide 24 heads
    tiny.num_layers = 1;
    tiny.num_single_layers = 1;
    tiny.heads = 24;
    tiny.head_dim = 8;
    tiny.axes_dims_rope = {2, 2, 2, 2};
    tiny.in_channels = tiny.out_channels = 16;
    tiny.joint_attention_dim = 64;
    return std::map<std::string, Flux2Config>{{"flux2-tiny", tiny}, {"flux2-dev", {}}};
  }();
  return presets;
}

Flux2Config flux2_preset(const std::string& name) { return find_preset(flux2_presets(), name); }

}  // namespace shardproof
