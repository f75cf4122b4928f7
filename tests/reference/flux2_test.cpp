#include "reference/flux2.hpp"

#include "tests/support/stored_oracle.hpp"

namespace shardproof {
namespace {

reference::Flux2 make(const test::StoredOracle& stored) {
  return {parse_flux2_config(stored.config, "config.json"), stored.weights};
}

TEST(ReferenceFlux2, AgreesWithDiffusers) { test::expect_agreement_with_diffusers("flux2", make, 1e-5); }

TEST(ReferenceFlux2, EveryParameterAndInputMatters) { test::expect_everything_to_matter("flux2", make); }

/// The second half of the fused projection is not what SiLU bends: twice of it is twice the feed-forward.
TEST(ReferenceFlux2, TheFirstHalfOfTheFusedProjectionIsTheGate) {
  const test::StoredOracle stored = test::read_oracle("flux2", at::kDouble);
  const int64_t mlp = parse_flux2_config(stored.config, "config.json").mlp_hidden();
  const std::string ff = "transformer_blocks.0.ff.";
  test::StoredOracle up_doubled = stored, gate_doubled = stored, out_doubled = stored;
  up_doubled.weights[ff + "linear_in.weight"] = stored.weights.at(ff + "linear_in.weight").clone();
  up_doubled.weights.at(ff + "linear_in.weight").slice(0, mlp).mul_(2);
  gate_doubled.weights[ff + "linear_in.weight"] = stored.weights.at(ff + "linear_in.weight").clone();
  gate_doubled.weights.at(ff + "linear_in.weight").slice(0, 0, mlp).mul_(2);
  out_doubled.weights[ff + "linear_out.weight"] = stored.weights.at(ff + "linear_out.weight") * 2;
  const Tensor expected = make(out_doubled).forward(stored.inputs);
  EXPECT_LE(test::relative_l2(make(up_doubled).forward(stored.inputs), expected), 1e-13);
  EXPECT_GT(test::relative_l2(make(gate_doubled).forward(stored.inputs), expected), 1e-4);
}

}  // namespace
}  // namespace shardproof
