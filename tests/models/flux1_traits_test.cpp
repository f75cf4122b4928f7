#include "models/flux1.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

TEST(Flux1Traits, DevHasItsPublishedSize) {
  const ModelTraits traits = flux1_traits(flux1_preset("flux1-dev"));
  EXPECT_EQ(parameter_count(traits), 11'901'408'320);
  EXPECT_EQ(traits.heads, 24);
  EXPECT_EQ(traits.attentions.size(), 57u);
}

TEST(Flux1Traits, PlanNamesItsPublishedShare) {  // 72.3 % of the parameters; 10.89 GB a rank in bf16 at tp 4
  const ModelTraits traits = flux1_traits(flux1_preset("flux1-dev"));
  Plan plan;
  plan.weights = traits.tp_plan;
  int64_t named = 0, per_rank = parameter_count(traits);
  for (const LinearTraits& linear : traits.linears) {
    const PlanEntry entry = plan_entry(plan, linear.name);
    if (entry.glob.empty()) continue;
    const int64_t weight = linear.out_features * linear.in_features;
    named += weight + linear.out_features;
    per_rank -= weight - weight / 4;
    if (std::holds_alternative<Colwise>(entry.sharding)) per_rank -= linear.out_features - linear.out_features / 4;
  }
  EXPECT_NEAR(static_cast<double>(named) / static_cast<double>(parameter_count(traits)), 0.723, 0.0005);
  EXPECT_NEAR(static_cast<double>(per_rank) * 2 / 1e9, 10.89, 0.005);
}

TEST(Flux1Traits, EveryEntryMatchesOncePerBlock) {
  const ModelTraits traits = flux1_traits(flux1_preset("flux1-dev"));
  for (const auto& [glob, sharding] : traits.tp_plan) {
    const auto matches = std::count_if(traits.linears.begin(), traits.linears.end(), [&](const auto& l) { return glob_matches(glob, l.name); });
    EXPECT_EQ(matches, glob.starts_with("single") ? 38 : 19) << glob;
  }
}

TEST(Flux1Traits, SeventySixFullWidthAllReduces) {
  const ModelTraits traits = flux1_traits(flux1_preset("flux1-dev"));
  int64_t full_width = 0;  // tokens of a row-wise output, in units of the joint sequence
  for (const LinearTraits& linear : traits.linears) {
    Plan plan;
    plan.weights = traits.tp_plan;
    if (!std::holds_alternative<Rowwise>(plan_entry(plan, linear.name).sharding)) continue;
    EXPECT_EQ(linear.out_features, 3072);
    full_width += linear.tokens == Tokens::joint ? 2 : 1;  // an image and a text output make one full width
  }
  EXPECT_EQ(full_width, 2 * 76);
}

TEST(Flux1Traits, GuidanceDecidesItsEmbedder) {
  Flux1Config config = flux1_preset("flux1-tiny");
  EXPECT_TRUE(flux1_traits(config).parameters.count("time_text_embed.guidance_embedder.linear_1.weight"));
  config.guidance_embeds = false;
  const ModelTraits traits = flux1_traits(config);
  EXPECT_FALSE(traits.parameters.count("time_text_embed.guidance_embedder.linear_1.weight"));
  EXPECT_FALSE(traits.batched_inputs.count("guidance"));
}

}  // namespace
}  // namespace shardproof
