#include "models/flux2.hpp"

#include "models/checkpoint.hpp"
#include "tests/models/plan_counts.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

TEST(Flux2Traits, DevHasItsPublishedSize) {
  const ModelTraits traits = flux2_traits(flux2_preset("flux2-dev"));
  EXPECT_EQ(parameter_count(traits), 32'223'281'152);
  EXPECT_EQ(traits.heads, 48);
  EXPECT_EQ(traits.attentions.size(), 56u);
}

TEST(Flux2Traits, PlanNamesItsPublishedShare) {
  const ModelTraits traits = flux2_traits(flux2_preset("flux2-dev"));
  EXPECT_NEAR(static_cast<double>(test::named_parameters(traits)) / static_cast<double>(parameter_count(traits)), 0.975, 0.0005);
  EXPECT_EQ(test::parameters_per_rank(traits, 2), 16'519'806'976);  // 33.04 GB in bf16
  EXPECT_EQ(test::parameters_per_rank(traits, 4), 8'668'069'888);   // 17.34 GB
  EXPECT_EQ(test::parameters_per_rank(traits, 8), 4'742'201'344);   // 9.48 GB
}

TEST(Flux2Traits, EveryEntryMatchesOncePerBlock) {
  const ModelTraits traits = flux2_traits(flux2_preset("flux2-dev"));
  EXPECT_EQ(traits.tp_plan.size(), 14u);
  for (const auto& [glob, sharding] : traits.tp_plan) {
    const auto matches =
        std::count_if(traits.linears.begin(), traits.linears.end(), [&](const auto& l) { return glob_matches(glob, l.name); });
    EXPECT_EQ(matches, glob.starts_with("single") ? 48 : 8) << glob;
  }
}

TEST(Flux2Traits, PackedBlocksAreDiffusers) {
  const auto plan = flux2_traits(flux2_preset("flux2-dev")).tp_plan;
  EXPECT_EQ(sharding_text(plan.at("transformer_blocks.*.ff.linear_in")), "packed_colwise[1, 1]");
  EXPECT_EQ(sharding_text(plan.at("single_transformer_blocks.*.attn.to_qkv_mlp_proj")),
            "packed_colwise[6144, 6144, 6144, 18432, 18432]");
  EXPECT_EQ(sharding_text(plan.at("single_transformer_blocks.*.attn.to_out")), "packed_rowwise[6144, 18432]");
}

TEST(Flux2Traits, SixtyFourFullWidthAllReduces) {
  const ModelTraits traits = flux2_traits(flux2_preset("flux2-dev"));
  Plan plan;
  plan.weights = traits.tp_plan;
  int64_t full_width = 0;  // tokens of a row-wise output, in units of the joint sequence
  for (const LinearTraits& linear : traits.linears) {
    if (!std::holds_alternative<Rowwise>(plan_entry(plan, linear.name).sharding)) continue;
    EXPECT_EQ(linear.out_features, 6144);
    full_width += linear.tokens == Tokens::joint ? 2 : 1;  // an image and a text output make one full width
  }
  EXPECT_EQ(full_width, 2 * 64);
}

TEST(Flux2Traits, ParametersAreTheCheckpoints) {
  const Checkpoint checkpoint(test::oracle_checkpoint("flux2"));
  const ModelTraits traits = flux2_traits(parse_flux2_config(checkpoint.config(), "config.json"));
  EXPECT_EQ(traits.parameters.size(), checkpoint.names().size());
  for (const auto& [name, shape] : traits.parameters) EXPECT_NO_THROW(require(checkpoint, name, shape)) << name;
  for (const LinearTraits& linear : traits.linears) EXPECT_FALSE(linear.bias) << linear.name;
}

TEST(Flux2Traits, GuidanceDecidesItsEmbedder) {
  Flux2Config config = flux2_preset("flux2-tiny");
  EXPECT_TRUE(flux2_traits(config).parameters.count("time_guidance_embed.guidance_embedder.linear_1.weight"));
  config.guidance_embeds = false;
  const ModelTraits traits = flux2_traits(config);
  EXPECT_FALSE(traits.parameters.count("time_guidance_embed.guidance_embedder.linear_1.weight"));
  EXPECT_FALSE(traits.batched_inputs.count("guidance"));
}

}  // namespace
}  // namespace shardproof
