#include "harness/judge.hpp"

#include "core/random.hpp"
#include "harness/localise.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// A module "fc" on two tp ranks whose parts are `columns` of the reference.
std::vector<Comparison> compare(const Tensor& reference, const std::vector<Tensor>& parts, at::ScalarType dtype, double single_error) {
  Plan plan{MeshShape({{Axis::tp, 2}}), {{"fc", Colwise{}}}, {}, {}};
  Baseline baseline;
  baseline.dtype = dtype;
  baseline.shape = {1, 2, 2, 4};
  baseline.reference["fc"]["out"] = reference;
  ErrorStats single;
  single.relative_l2 = single_error;
  single.max_abs = single_error;
  baseline.single_errors["fc"]["out"] = baseline.aten_errors["fc"]["out"] = single;
  RunResult run;
  for (const Tensor& part : parts) {
    RankResult rank;
    rank.trace.order = {"fc"};
    rank.trace.modules["fc"].outputs["out"] = part.to(dtype);
    rank.trace.modules["fc"].layouts["out"] = {Tokens::image, 2, {}};
    run.ranks.push_back(rank);
  }
  return judge_forced(baseline, plan, run, false);
}

TEST(Judge, RightPartsPass) {
  const Tensor reference = seeded_normal({1, 4, 6}, 0, "x");
  const auto result = compare(reference, {reference.slice(2, 0, 3), reference.slice(2, 3)}, at::kDouble, 0);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_TRUE(result[0].pass);
  EXPECT_EQ(result[0].stats.relative_l2, 0);
}

TEST(Judge, TwoSwappedColumnsFail) {  // nnsight#719: compared as a multiset, a permuted gather passed
  const Tensor reference = seeded_normal({1, 4, 6}, 0, "x");
  Tensor second = reference.slice(2, 3).clone();
  const Tensor column = second.select(2, 0).clone();
  second.select(2, 0).copy_(second.select(2, 1));
  second.select(2, 1).copy_(column);
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto result = compare(reference, {reference.slice(2, 0, 3), second}, dtype, 1e-3);
    EXPECT_FALSE(result[0].pass);
    EXPECT_EQ(result[0].rank, 1);
  }
}

TEST(Judge, SwappedRanksFail) {
  const Tensor reference = seeded_normal({1, 4, 6}, 0, "x");
  EXPECT_FALSE(compare(reference, {reference.slice(2, 3), reference.slice(2, 0, 3)}, at::kDouble, 0)[0].pass);
}

TEST(Judge, OneValueThatIsNotFiniteFails) {
  const Tensor reference = seeded_normal({1, 4, 6}, 0, "x");
  Tensor broken = reference.slice(2, 3).clone();
  broken[0][1][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(compare(reference, {reference.slice(2, 0, 3), broken}, at::kDouble, 0)[0].pass);
}

TEST(Judge, WhereASingleDeviceIsExactSoMustTheRanksBe) {
  ErrorStats exact, off;
  exact.count = off.count = 100;
  off.relative_l2 = 1e-12;
  EXPECT_TRUE(judge_precision(Level::module, "m", "out", exact, exact, 1e-6, 1.02, {}).pass);
  EXPECT_FALSE(judge_precision(Level::module, "m", "out", off, exact, 1e-6, 1.02, {}).pass);
}

TEST(Judge, PrecisionIsARatioAboveTheFloor) {
  ErrorStats single, ranks;
  single.count = ranks.count = 1'000'000;
  single.relative_l2 = 1e-3;
  ranks.relative_l2 = 1.01e-3;
  const auto near = judge_precision(Level::block, "m", "out", ranks, single, 1e-6, 1.02, {});
  EXPECT_TRUE(near.pass);
  EXPECT_DOUBLE_EQ(*near.ratio, 1.01);
  ranks.relative_l2 = 1.03e-3;
  EXPECT_FALSE(judge_precision(Level::block, "m", "out", ranks, single, 1e-6, 1.02, {}).pass);
  EXPECT_TRUE(judge_precision(Level::block, "m", "out", ranks, single, 1.03e-3, 1.02, {}).pass);  // under the floor
}

Plan plan_of(const MeshShape& mesh) { return {.mesh = mesh, .weights = {}, .inputs = {}, .outputs = {}}; }

TEST(Gates, AreTheDocumentedOnes) {
  const int64_t many = 1'000'000'000'000;
  const auto gate = [&](Axis axis, int degree, Part part) { return precision_gate(plan_of(MeshShape({{axis, degree}})), part, many); };
  EXPECT_NEAR(gate(Axis::tp, 2, Part::rowwise), 2.165, 0.001);
  EXPECT_NEAR(gate(Axis::tp, 4, Part::rowwise), 2.577, 0.001);
  EXPECT_NEAR(gate(Axis::tp, 8, Part::block), 3.156, 0.001);
  EXPECT_NEAR(gate(Axis::ulysses, 4, Part::block), 1.02, 1e-5);
  EXPECT_NEAR(gate(Axis::ring, 4, Part::attention), 1.05, 1e-5);
  EXPECT_NEAR(gate(Axis::ring, 4, Part::end_to_end), 1.05, 1e-5);
  EXPECT_NEAR(precision_gate(plan_of(MeshShape({{Axis::tp, 2}, {Axis::ulysses, 2}})), Part::block, many), 2.165 * 1.02, 0.001);
  EXPECT_NEAR(precision_gate(plan_of(MeshShape()), Part::block, 400), 1.2, 1e-12);  // 4 / sqrt(400)
  EXPECT_DOUBLE_EQ(error_floor(at::kFloat), 16 * 0x1p-23);
}

TEST(Localise, TheInnermostFirstFailureAndTheEntriesThatTouchIt) {
  Plan plan{MeshShape({{Axis::tp, 2}}), {}, {}, {}};
  plan.weights["transformer_blocks.*.attn.to_out.0"] = Rowwise{};
  plan.weights["transformer_blocks.*.ff.net.2"] = Rowwise{};
  std::vector<Comparison> all(4);
  all[0] = {true, Level::block, "transformer_blocks.0", "image", {}, {}, {}, 1e-12, false, 0};
  all[1] = {true, Level::module, "transformer_blocks.0.attn.to_q", "out", {}, {}, {}, 1e-12, true, {}};
  all[2] = {true, Level::module, "transformer_blocks.0.attn.to_out.0", "out", {}, {}, {}, 1e-12, false, 1};
  all[3] = {true, Level::end_to_end, "model", "latents", {}, {}, {}, 1e-12, false, {}};
  const FirstFailure failure = localise(all, plan);
  EXPECT_EQ(failure.module, "transformer_blocks.0.attn.to_out.0");
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.plan_entries, (std::vector<std::string>{"transformer_blocks.*.attn.to_out.0: rowwise"}));
  all[2].pass = true;
  EXPECT_EQ(localise(all, plan).module, "transformer_blocks.0");
  EXPECT_EQ(localise(all, plan).plan_entries.size(), 2u);
  all[0].pass = true;
  EXPECT_EQ(localise(all, plan).module, "model");
}

}  // namespace
}  // namespace shardproof
