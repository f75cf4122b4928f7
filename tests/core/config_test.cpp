#include "core/model_config.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(Flux1Config, DevPresetIsFlux1Dev) {
  const Flux1Config dev = flux1_preset("flux1-dev");
  EXPECT_EQ(dev.hidden(), 3072);
  EXPECT_EQ(dev.mlp_hidden(), 12288);
  EXPECT_EQ(dev.num_layers, 19);
  EXPECT_EQ(dev.num_single_layers, 38);
  EXPECT_TRUE(dev.guidance_embeds);
}

TEST(Flux1Config, RoundTripsThroughJson) {
  for (const auto& name : preset_names()) {
    const Flux1Config config = flux1_preset(name);
    EXPECT_EQ(parse_flux1_config(to_json(config), name), config) << name;
    EXPECT_TRUE(is_preset(name));
  }
  EXPECT_FALSE(is_preset("flux"));
}

TEST(Flux1Config, MissingFieldsAreDiffusersDefaults) {
  Flux1Config expected;
  expected.guidance_embeds = false;
  EXPECT_EQ(parse_flux1_config(parse_json(R"({"_class_name": "FluxTransformer2DModel", "out_channels": null})", "c"), "c"), expected);
}

TEST(Flux1Config, RefusalsNameTheField) {
  const auto refuse = [](const char* text, std::vector<std::string> words) {
    test::expect_error(Fault::input, words, [&] { parse_flux1_config(parse_json(text, "config.json"), "config.json"); });
  };
  refuse(R"({"_class_name": "WanTransformer3DModel"})", {"config.json", "WanTransformer3DModel", "FluxTransformer2DModel"});
  refuse(R"({"num_attention_heads": 0})", {"num_attention_heads", "0", "1 to"});
  refuse(R"({"num_attention_heads": "24"})", {"num_attention_heads", "whole number"});
  refuse(R"({"axes_dims_rope": [16, 56]})", {"axes_dims_rope", "2 entries"});
  refuse(R"({"axes_dims_rope": [16, 56, 55]})", {"axes_dims_rope", "128"});
  refuse(R"({"axes_dims_rope": [15, 57, 56]})", {"axes_dims_rope", "even"});
  refuse(R"({"quantization_config": {"bits": 4}})", {"quantization_config"});
  test::expect_error(Fault::input, {"\"flux9\"", "flux1-tiny"}, [] { flux1_preset("flux9"); });
}

}  // namespace
}  // namespace shardproof
