#include "models/qwen_image.hpp"

#include "models/checkpoint.hpp"
#include "tests/models/plan_counts.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

TEST(QwenImageTraits, HasItsPublishedSize) {
  const ModelTraits traits = qwen_image_traits(qwen_image_preset("qwen-image"));
  EXPECT_EQ(parameter_count(traits), 20'430'401'088);
  EXPECT_EQ(traits.heads, 24);
  EXPECT_EQ(traits.attentions.size(), 60u);
}

TEST(QwenImageTraits, PlanNamesItsPublishedShare) {
  const ModelTraits traits = qwen_image_traits(qwen_image_preset("qwen-image"));
  EXPECT_NEAR(static_cast<double>(test::named_parameters(traits)) / static_cast<double>(parameter_count(traits)), 0.665, 0.0005);
  EXPECT_EQ(test::parameters_per_rank(traits, 2), 13'634'338'368);  // 27.27 GB in bf16
  EXPECT_EQ(test::parameters_per_rank(traits, 4), 10'236'307'008);  // 20.47 GB
  EXPECT_EQ(test::parameters_per_rank(traits, 8), 8'537'291'328);   // 17.0746 GB; published as 17.08, rounded twice
}

TEST(QwenImageTraits, EveryEntryMatchesOncePerBlockAndIsPlain) {
  const ModelTraits traits = qwen_image_traits(qwen_image_preset("qwen-image"));
  EXPECT_EQ(traits.tp_plan.size(), 12u);
  for (const auto& [glob, sharding] : traits.tp_plan) {
    const auto matches =
        std::count_if(traits.linears.begin(), traits.linears.end(), [&](const auto& l) { return glob_matches(glob, l.name); });
    EXPECT_EQ(matches, 60) << glob;
    EXPECT_EQ(sharding_text(sharding).find("packed"), std::string::npos) << glob;
  }
}

TEST(QwenImageTraits, ParametersAreTheCheckpoints) {
  const Checkpoint checkpoint(test::oracle_checkpoint("qwen-image"));
  const ModelTraits traits = qwen_image_traits(parse_qwen_image_config(checkpoint.config(), "config.json"));
  EXPECT_EQ(traits.parameters.size(), checkpoint.names().size());
  for (const auto& [name, shape] : traits.parameters) EXPECT_NO_THROW(require(checkpoint, name, shape)) << name;
}

}  // namespace
}  // namespace shardproof
