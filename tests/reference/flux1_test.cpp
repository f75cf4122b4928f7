#include "reference/flux1.hpp"

#include "tests/support/stored_oracle.hpp"

namespace shardproof {
namespace {

reference::Flux1 make(const test::StoredOracle& stored) {
  return {parse_flux1_config(stored.config, "config.json"), stored.weights};
}

TEST(ReferenceFlux1, AgreesWithDiffusers) { test::expect_agreement_with_diffusers("flux1", make, 1e-5); }

TEST(ReferenceFlux1, EveryParameterAndInputMatters) { test::expect_everything_to_matter("flux1", make); }

TEST(ReferenceFlux1, AttentionOfZeroQueriesIsTheMeanOfTheValues) {
  const auto model = make(test::read_oracle("flux1", at::kDouble));
  const Tensor v = at::arange(4, at::kDouble).view({1, 4, 1, 1}), zero = at::zeros({1, 4, 1, 1}, at::kDouble);
  const Tensor out = model.run_module("transformer_blocks.0.attn", {{"q", zero}, {"k", zero}, {"v", v}}).at("out");
  EXPECT_LE(test::relative_l2(out, at::full({1, 4, 1, 1}, 1.5, at::kDouble)), 1e-15);
}

}  // namespace
}  // namespace shardproof
