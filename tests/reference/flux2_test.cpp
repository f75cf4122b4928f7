#include "reference/flux2.hpp"

#include "tests/support/stored_oracle.hpp"

namespace shardproof {
namespace {

reference::Flux2 make(const test::StoredOracle& stored) {
  return {parse_flux2_config(stored.config, "config.json"), stored.weights};
}

TEST(ReferenceFlux2, AgreesWithDiffusers) { test::expect_agreement_with_diffusers("flux2", make, 1e-5); }

TEST(ReferenceFlux2, EveryParameterAndInputMatters) { test::expect_everything_to_matter("flux2", make); }

/// With gates of 0 silu is 0, and a block is what its attention alone makes of it.
TEST(ReferenceFlux2, TheFirstHalfOfTheFusedProjectionIsTheGate) {
  test::StoredOracle stored = test::read_oracle("flux2", at::kDouble);
  const auto config = parse_flux2_config(stored.config, "config.json");
  const std::string ff = "transformer_blocks.0.ff.";
  const int64_t mlp = config.mlp_hidden();
  Tensor linear_in = stored.weights.at(ff + "linear_in.weight").clone();
  linear_in.slice(0, 0, mlp).zero_();
  stored.weights[ff + "linear_in.weight"] = linear_in;
  const Tensor gates_of_zero = make(stored).forward(stored.inputs);
  stored.weights[ff + "linear_out.weight"] = at::zeros_like(stored.weights.at(ff + "linear_out.weight"));
  EXPECT_LE(test::relative_l2(make(stored).forward(stored.inputs), gates_of_zero), 1e-15);
}

}  // namespace
}  // namespace shardproof
