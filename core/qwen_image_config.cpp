#include "core/qwen_image_config.hpp"

#include "core/config_reading.hpp"
#include "core/model_config.hpp"

namespace shardproof {

QwenImageConfig parse_qwen_image_config(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  check_class(reader, source, "QwenImageTransformer2DModel");
  // guidance_embeds is a field of the class, but its forward fails as soon as a guidance is given.
  for (const char* variant : {"zero_cond_t", "use_additional_t_cond", "use_layer3d_rope", "guidance_embeds"})
    if (reader.boolean(variant, false))
      fail_input("config", "{}: \"{}\" is true; accepted: false, as in Qwen-Image", source, variant);
  QwenImageConfig config;
  config.patch_size = reader.integer("patch_size", 2, 1, 64);
  config.in_channels = reader.integer("in_channels", 64, 1, largest_width);
  // A null means as many as come in; an absent field means diffusers' default.
  const bool as_input = json.contains("out_channels") && json.at("out_channels").is_null();
  config.out_channels = reader.integer("out_channels", as_input ? config.in_channels : 16, 1, largest_width);
  config.num_layers = reader.integer("num_layers", 60, 0, 1000);
  config.head_dim = reader.integer("attention_head_dim", 128, 2, 1024);
  config.heads = reader.integer("num_attention_heads", 24, 1, 1024);
  config.joint_attention_dim = reader.integer("joint_attention_dim", 3584, 1, largest_width);
  config.axes_dims_rope = read_axes<3>(reader, source, {16, 56, 56}, config.head_dim);
  return config;
}

Json to_json(const QwenImageConfig& c) {
  return {{"_class_name", "QwenImageTransformer2DModel"},
          {"attention_head_dim", c.head_dim},
          {"axes_dims_rope", c.axes_dims_rope},
          {"guidance_embeds", false},
          {"in_channels", c.in_channels},
          {"joint_attention_dim", c.joint_attention_dim},
          {"num_attention_heads", c.heads},
          {"num_layers", c.num_layers},
          {"out_channels", c.out_channels},
          {"patch_size", c.patch_size}};
}

const std::map<std::string, QwenImageConfig>& qwen_image_presets() {
  static const std::map<std::string, QwenImageConfig> presets = [] {
    QwenImageConfig tiny;  // 2, 3, 4, 6 and 8 ranks divide 24 heads
    tiny.num_layers = 2;
    tiny.heads = 24;
    tiny.head_dim = 6;
    tiny.axes_dims_rope = {2, 2, 2};
    tiny.in_channels = 16;
    tiny.out_channels = 4;
    tiny.joint_attention_dim = 64;
    return std::map<std::string, QwenImageConfig>{{"qwen-image-tiny", tiny}, {"qwen-image", {}}};
  }();
  return presets;
}

QwenImageConfig qwen_image_preset(const std::string& name) { return find_preset(qwen_image_presets(), name); }

}  // namespace shardproof
