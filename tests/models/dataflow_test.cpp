#include "models/flux1.hpp"
#include "models/flux1_dataflow.hpp"
#include "models/flux2.hpp"
#include "models/flux2_dataflow.hpp"
#include "models/qwen_image.hpp"
#include "models/qwen_image_dataflow.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// The steps of a model name exactly the parameters that it reads, with their shapes.
TEST(Dataflow, HasTheModelsParameters) {
  for (const char* preset : {"flux1-tiny", "flux1-dev"})
    EXPECT_EQ(parameters(flux1_dataflow(flux1_preset(preset))), flux1_traits(flux1_preset(preset)).parameters) << preset;
  for (const char* preset : {"flux2-tiny", "flux2-dev"})
    EXPECT_EQ(parameters(flux2_dataflow(flux2_preset(preset))), flux2_traits(flux2_preset(preset)).parameters) << preset;
  for (const char* preset : {"qwen-image-tiny", "qwen-image"})
    EXPECT_EQ(parameters(qwen_image_dataflow(qwen_image_preset(preset))), qwen_image_traits(qwen_image_preset(preset)).parameters)
        << preset;
}

TEST(Dataflow, ParametersFollowTheConfig) {
  Flux1Config flux1 = flux1_preset("flux1-tiny");
  flux1.guidance_embeds = false;
  EXPECT_EQ(parameters(flux1_dataflow(flux1)), flux1_traits(flux1).parameters);
  Flux2Config flux2 = flux2_preset("flux2-tiny");
  flux2.guidance_embeds = false;
  flux2.mlp_ratio = 2.5;
  EXPECT_EQ(parameters(flux2_dataflow(flux2)), flux2_traits(flux2).parameters);
}

}  // namespace
}  // namespace shardproof
