#include "core/dtype.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"
#include "harness/rank_run.hpp"
#include "harness/verify.hpp"
#include "strategies/registry.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

/// FLUX.2 and Qwen-Image on N virtual ranks under every strategy; ranks_test.cpp does the same, and more, with FLUX.1.
class FamilyRanks : public testing::TestWithParam<int> {
 protected:
  static VerifyRequest request_of(std::vector<at::ScalarType> dtypes, const std::string& family) {
    VerifyRequest request;
    request.candidates = parse_candidates("all", GetParam(), std::nullopt);
    request.dtypes = std::move(dtypes);
    request.families = {family};
    request.steps = {1};
    request.attention = "kokkos_flash";
    return request;
  }
};
INSTANTIATE_TEST_SUITE_P(N, FamilyRanks, testing::Values(2, 3, 4, 6, 8), testing::PrintToStringParamName());

const std::vector<std::string> families{"flux2-tiny", "qwen-image-tiny"};

TEST_P(FamilyRanks, EveryStrategyPassesWhere24HeadsDivide) {
  for (const auto& family : families)
    for (const Row& row :
         verify(load_subject(family, 0), request_of({at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}, "structured"))) {
      const bool two_degrees = row.strategy.starts_with("unified");
      EXPECT_EQ(status_name(row.status), two_degrees && GetParam() < 4 ? "failed" : "pass")
          << family << " " << row.strategy << " " << dtype_name(row.dtype) << ": " << row.reason.value_or("");
    }
}

/// Lengths that N does not divide, with a mask: positions, masks and rotations are cut alike, or the row says why not.
TEST_P(FamilyRanks, UnevenLengthsAndMasks) {
  for (const auto& family : families) {
    VerifyRequest request = request_of({at::kDouble, at::kBFloat16}, "negative_logits");
    request.shape = {1, 5, 7, 13};
    request.padded_mask = true;
    int passed = 0;
    for (const Row& row : verify(load_subject(family, 0), request)) {
      EXPECT_TRUE(row.status == Status::pass || row.status == Status::failed)
          << family << " " << row.strategy << " " << dtype_name(row.dtype) << ": " << row.reason.value_or("");
      passed += row.status == Status::pass;
    }
    EXPECT_GE(passed, 8) << family << ": single, tp, and at least the two anything strategies";
  }
}

/// Packed blocks: what FLUX.2's tensor-parallel ranks hold is what the plan says, to the byte.
TEST_P(FamilyRanks, TensorParallelRanksHoldTheirShareOfTheWeights) {
  for (const auto& family : families) {
    const Subject subject = load_subject(family, 0);
    Plan plan;
    plan.weights = subject.spec.traits.tp_plan;
    int64_t expected = 0;  // bytes in fp32
    for (const auto& [name, shape] : subject.spec.traits.parameters) expected += 4 * c10::multiply_integers(shape);
    for (const LinearTraits& linear : subject.spec.traits.linears) {
      const Sharding sharding = plan_entry(plan, linear.name).sharding;
      if (std::holds_alternative<Replicated>(sharding)) continue;
      int64_t sharded = linear.out_features * linear.in_features;
      if (std::holds_alternative<Colwise>(sharding) && linear.bias) sharded += linear.out_features;
      expected -= 4 * (sharded - sharded / GetParam());
    }
    const NamedTensors inputs = to_dtype(subject.inputs({}, "randn", 0, 4), at::kFloat);
    const RankRequest request{&find_strategy("tp"), MeshShape({{Axis::tp, GetParam()}}), at::kFloat, "kokkos_flash", nullptr};
    for (const RankResult& rank : run_end_to_end(subject, request, inputs, 1).ranks)
      EXPECT_EQ(rank.weight_bytes, expected) << family;
  }
}

/// The harness's own inputs have the positions that diffusers' pipelines (and tests/oracle) give such an image.
TEST(Families, PositionsAreDiffusers) {
  for (const std::string family : {"flux1", "flux2", "qwen-image"}) {
    const Subject subject = load_subject(test::oracle_checkpoint(family).string(), 0);
    const NamedTensors inputs = subject.inputs({1, 6, 8, 24}, "randn", 0, 4);
    for (const char* ids : {"img_ids", "txt_ids"})
      EXPECT_TRUE(at::equal(inputs.at(ids), subject.golden->inputs.at(ids))) << family << " " << ids;
  }
}

TEST(Families, QwenImageCountsFromTheMiddle) {
  const NamedTensors inputs = load_subject("qwen-image-tiny", 0).inputs({1, 5, 2, 3}, "randn", 0, 4);
  const auto column = [&](const char* ids, int64_t axis) {
    const Tensor values = inputs.at(ids).select(1, axis).contiguous();
    return std::vector<double>(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
  };
  EXPECT_EQ(column("img_ids", 0), std::vector<double>(10, 0));
  EXPECT_EQ(column("img_ids", 1), (std::vector<double>{-3, -3, -2, -2, -1, -1, 0, 0, 1, 1}));
  EXPECT_EQ(column("img_ids", 2), (std::vector<double>{-1, 0, -1, 0, -1, 0, -1, 0, -1, 0}));
  for (const int64_t axis : {0, 1, 2}) EXPECT_EQ(column("txt_ids", axis), (std::vector<double>{2, 3, 4}));
}

}  // namespace
}  // namespace shardproof
