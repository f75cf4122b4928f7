#include "core/model_config.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(ModelConfig, PresetsRoundTripThroughJson) {
  for (const auto& name : preset_names()) {
    EXPECT_TRUE(is_preset(name));
    const ModelConfig config = model_preset(name);
    const Json json = std::visit([](const auto& c) { return to_json(c); }, config);
    EXPECT_TRUE(parse_model_config(json, name) == config) << name;
  }
  EXPECT_EQ(preset_names().size(), flux1_presets().size() + flux2_presets().size() + qwen_image_presets().size());
  EXPECT_FALSE(is_preset("flux"));
}

TEST(ModelConfig, TheClassDecidesTheFamily) {
  const auto parse = [](const char* text) { return parse_model_config(parse_json(text, "c"), "c"); };
  EXPECT_TRUE(std::holds_alternative<Flux1Config>(parse(R"({"_class_name": "FluxTransformer2DModel"})")));
  EXPECT_TRUE(std::holds_alternative<Flux2Config>(parse(R"({"_class_name": "Flux2Transformer2DModel"})")));
  EXPECT_TRUE(std::holds_alternative<QwenImageConfig>(parse(R"({"_class_name": "QwenImageTransformer2DModel"})")));
  test::expect_error(
      Fault::input, {"WanTransformer3DModel", "FluxTransformer2DModel", "Flux2Transformer2DModel", "QwenImageTransformer2DModel"},
      [&] { parse(R"({"_class_name": "WanTransformer3DModel"})"); });
  test::expect_error(Fault::input, {"\"flux9\"", "flux1-tiny", "flux2-dev", "qwen-image"}, [] { model_preset("flux9"); });
}

TEST(ModelConfig, TinyPresetsDivideByManyRanks) {
  for (const int64_t ranks : {2, 3, 4, 6, 8}) {
    EXPECT_EQ(flux1_preset("flux1-tiny").heads % ranks, 0);
    EXPECT_EQ(flux2_preset("flux2-tiny").heads % ranks, 0);
    EXPECT_EQ(flux2_preset("flux2-tiny").mlp_hidden() % ranks, 0);
    EXPECT_EQ(qwen_image_preset("qwen-image-tiny").heads % ranks, 0);
  }
}

/// `parse` refuses `text` with all of `words`.
template <class Parse>
void refuse(const Parse& parse, const char* text, const std::vector<std::string>& words) {
  test::expect_error(Fault::input, words, [&] { parse(parse_json(text, "config.json"), "config.json"); });
}

TEST(Flux1Config, DevPresetIsFlux1Dev) {
  const Flux1Config dev = flux1_preset("flux1-dev");
  EXPECT_EQ(dev.hidden(), 3072);
  EXPECT_EQ(dev.mlp_hidden(), 12288);
  EXPECT_EQ(dev.num_layers, 19);
  EXPECT_EQ(dev.num_single_layers, 38);
  EXPECT_TRUE(dev.guidance_embeds);
}

TEST(Flux1Config, MissingFieldsAreDiffusersDefaults) {
  Flux1Config expected;
  expected.guidance_embeds = false;
  EXPECT_EQ(parse_flux1_config(parse_json(R"({"_class_name": "FluxTransformer2DModel", "out_channels": null})", "c"), "c"),
            expected);
}

TEST(Flux1Config, RefusalsNameTheField) {
  refuse(parse_flux1_config, R"({"_class_name": "WanTransformer3DModel"})",
         {"config.json", "WanTransformer3DModel", "FluxTransformer2DModel"});
  refuse(parse_flux1_config, R"({"num_attention_heads": 0})", {"num_attention_heads", "0", "1 to"});
  refuse(parse_flux1_config, R"({"num_attention_heads": "24"})", {"num_attention_heads", "whole number"});
  refuse(parse_flux1_config, R"({"axes_dims_rope": [16, 56]})", {"axes_dims_rope", "2 entries"});
  refuse(parse_flux1_config, R"({"axes_dims_rope": [16, 56, 55]})", {"axes_dims_rope", "128"});
  refuse(parse_flux1_config, R"({"axes_dims_rope": [15, 57, 56]})", {"axes_dims_rope", "even"});
  refuse(parse_flux1_config, R"({"quantization_config": {"bits": 4}})", {"quantization_config"});
  test::expect_error(Fault::input, {"\"flux9\"", "flux1-tiny"}, [] { flux1_preset("flux9"); });
}

TEST(Flux2Config, MissingFieldsAreDiffusersDefaultsAndFlux2Dev) {
  const Flux2Config dev =
      parse_flux2_config(parse_json(R"({"_class_name": "Flux2Transformer2DModel", "out_channels": null})", "c"), "c");
  EXPECT_EQ(dev, flux2_preset("flux2-dev"));
  EXPECT_EQ(dev.hidden(), 6144);
  EXPECT_EQ(dev.mlp_hidden(), 18432);
  EXPECT_EQ(dev.out_channels, 128);
}

TEST(Flux2Config, TheFeedForwardsWidthIsRoundedDown) {
  const auto text =
      R"({"num_attention_heads": 1, "attention_head_dim": 10, "axes_dims_rope": [2, 2, 2, 4], "mlp_ratio": 2.55, "rope_theta": 1e4})";
  const Flux2Config config = parse_flux2_config(parse_json(text, "c"), "c");
  EXPECT_EQ(config.mlp_hidden(), 25);
  EXPECT_EQ(config.rope_theta, 10000);
}

TEST(Flux2Config, RefusalsNameTheField) {
  refuse(parse_flux2_config, R"({"_class_name": "FluxTransformer2DModel"})",
         {"FluxTransformer2DModel", "Flux2Transformer2DModel"});
  refuse(parse_flux2_config, R"({"axes_dims_rope": [16, 56, 56]})", {"axes_dims_rope", "3 entries", "4"});
  refuse(parse_flux2_config, R"({"axes_dims_rope": [32, 32, 32, 30]})", {"axes_dims_rope", "128"});
  refuse(parse_flux2_config, R"({"mlp_ratio": 0})", {"mlp_ratio", "above 0"});
  refuse(parse_flux2_config, R"({"mlp_ratio": "3"})", {"mlp_ratio", "number"});
  refuse(parse_flux2_config, R"({"mlp_ratio": 0.00001})", {"mlp_ratio", "width 0"});
  refuse(parse_flux2_config, R"({"rope_theta": -2000})", {"rope_theta", "above 0"});
  refuse(parse_flux2_config, R"({"eps": 0})", {"eps", "above 0"});
  refuse(parse_flux2_config, R"({"timestep_guidance_channels": 255})", {"timestep_guidance_channels", "even"});
  refuse(parse_flux2_config, R"({"guidance_embeds": 1})", {"guidance_embeds", "true or false"});
  refuse(parse_flux2_config, R"({"quantization_config": {"bits": 4}})", {"quantization_config"});
}

TEST(QwenImageConfig, MissingFieldsAreDiffusersDefaultsAndQwenImage) {
  const auto parse = [](const char* text) { return parse_qwen_image_config(parse_json(text, "c"), "c"); };
  EXPECT_EQ(parse("{}"), qwen_image_preset("qwen-image"));
  EXPECT_EQ(parse("{}").hidden(), 3072);
  EXPECT_EQ(parse("{}").out_channels, 16);
  EXPECT_EQ(parse(R"({"out_channels": null})").out_channels, 64) << "a null is as many as come in, as in diffusers";
}

TEST(QwenImageConfig, RefusalsNameTheField) {
  refuse(parse_qwen_image_config, R"({"_class_name": "Flux2Transformer2DModel"})",
         {"Flux2Transformer2DModel", "QwenImageTransformer2DModel"});
  for (const std::string variant : {"zero_cond_t", "use_additional_t_cond", "use_layer3d_rope", "guidance_embeds"})
    refuse(parse_qwen_image_config, ("{\"" + variant + "\": true}").c_str(), {variant, "accepted: false"});
  refuse(parse_qwen_image_config, R"({"axes_dims_rope": [32, 32, 32, 32]})", {"axes_dims_rope", "4 entries", "3"});
  refuse(parse_qwen_image_config, R"({"num_layers": -1})", {"num_layers", "0 to"});
  refuse(parse_qwen_image_config, R"({"joint_attention_dim": 3584.5})", {"joint_attention_dim", "whole number"});
  refuse(parse_qwen_image_config, R"({"quantization_config": {"bits": 4}})", {"quantization_config"});
}

}  // namespace
}  // namespace shardproof
