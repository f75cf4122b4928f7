#include "core/dtype.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"
#include "harness/rank_run.hpp"
#include "harness/verify.hpp"
#include "strategies/registry.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace shardproof {
namespace {

std::vector<Row> verify_single(const std::string& model, const std::string& attention, const std::string& dtypes) {
  VerifyRequest request;
  request.candidates = parse_candidates("single", 1, std::nullopt);
  request.dtypes = parse_dtypes(dtypes);
  request.families = {"randn"};
  request.steps = {1, 4};
  request.attention = attention;
  return verify(load_subject(model, 0), request);
}

void expect_agreement(const std::string& folder, const std::string& attention, const std::string& dtypes) {
  for (const Row& row : verify_single(folder, attention, dtypes)) {
    EXPECT_EQ(status_name(row.status), "pass")
        << folder << " " << attention << " " << dtype_name(row.dtype) << ": " << row.reason.value_or("");
    const auto diffusers =
        std::count_if(row.comparisons.begin(), row.comparisons.end(), [](const auto& c) { return c.level == Level::diffusers; });
    EXPECT_GE(diffusers, 6) << "the fp64 outputs, masked outputs and latents of native and reference";
  }
}

TEST(Single, AgreesWithTheReferenceAndDiffusersOnEveryAttentionBackend) {
  for (const auto& attention : attention_backend_names()) {
    if (make_attention_backend(attention)->traits().device != "cpu") continue;
    expect_agreement(test::oracle_checkpoint("flux1").string(), attention, "fp64,fp32,bf16,fp16");
    expect_agreement(test::oracle_checkpoint("flux2").string(), attention, "fp64,fp32,bf16,fp16");
    expect_agreement(test::oracle_checkpoint("qwen-image").string(), attention, "fp64,fp32,bf16,fp16");
  }
}

/// A family's folder of checkpoints of other sizes that tests/oracle/make_<family>.py --suite wrote.
class Suites : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return std::filesystem::path(std::getenv("SHARDPROOF_ORACLE_SUITE")) / GetParam(); }
  void SetUp() override {
    if (!std::getenv("SHARDPROOF_ORACLE_SUITE")) GTEST_SKIP() << "SHARDPROOF_ORACLE_SUITE is not set; ci/test.sh sets it";
  }
  void expect_pass(const std::string& name, int ranks, const std::string& dtypes, std::vector<std::string> families,
                   std::vector<int64_t> steps) {
    VerifyRequest request;
    request.candidates = parse_candidates("all", ranks, std::nullopt);
    request.dtypes = parse_dtypes(dtypes);
    request.families = std::move(families);
    request.steps = std::move(steps);
    request.attention = "kokkos_flash";
    for (const Row& row : verify(load_subject((folder() / name).string(), 0), request)) {
      const bool too_few = row.strategy.starts_with("unified") && ranks < 4;
      EXPECT_EQ(status_name(row.status), too_few ? "failed" : "pass")
          << GetParam() << " " << name << " " << row.strategy << "[" << row.mesh.text() << "]: " << row.reason.value_or("");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Families, Suites, testing::Values("flux1", "flux2", "qwen_image"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(Suites, AgreesWithDiffusersOnOtherSizes) {
  int checkpoints = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    ++checkpoints;
    expect_agreement(entry.path().string(), "kokkos_flash", "fp64,fp32");
  }
  EXPECT_GE(checkpoints, 7);
}

TEST_P(Suites, StrategiesPassOnDiffusersCheckpointsOfOtherSizes) {
  const bool flux1 = GetParam() == std::string("flux1");
  if (flux1) {
    expect_pass("h64-batch2", 4, "fp64,fp32,bf16,fp16", input_families(), {1, 4});
    expect_pass("h128-sharded", 8, "fp64,fp32,bf16,fp16", {"structured"}, {1, 4});
  } else {
    expect_pass("h128-sharded", 4, "fp64,bf16", {"structured"}, {1});
  }
  for (const int ranks : flux1 ? std::vector{2, 3, 4, 6, 8} : std::vector{3, 8})
    expect_pass("h384-heads24", ranks, "fp64,fp32", {"negative_logits"}, {1});
}

TEST(Single, TheSameInputGivesTheSameBitsEveryTime) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  const NamedTensors inputs = to_dtype(subject.inputs({}, "randn", 0, 4), at::kBFloat16);
  for (const Candidate& candidate : parse_candidates("all", 4, std::nullopt)) {
    const RankRequest request{candidate.strategy, candidate.mesh, at::kBFloat16, "kokkos_flash", nullptr};
    const RunResult first = run_end_to_end(subject, request, inputs, 2), second = run_end_to_end(subject, request, inputs, 2);
    for (size_t rank = 0; rank < first.ranks.size(); ++rank) {
      EXPECT_TRUE(at::equal(first.ranks[rank].output, second.ranks[rank].output)) << candidate.strategy->name();
      EXPECT_EQ(first.ranks[rank].traffic, second.ranks[rank].traffic);
      EXPECT_EQ(first.ranks[rank].peak_tensor_bytes, second.ranks[rank].peak_tensor_bytes) << candidate.strategy->name();
    }
  }
}

TEST(Single, TensorParallelRanksHoldTheirShareOfTheWeights) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  int64_t full = 0, sharded = 0;  // bytes in fp32, by hand from the shapes
  Plan plan;
  plan.weights = subject.spec.traits.tp_plan;
  for (const auto& [name, shape] : subject.spec.traits.parameters) full += 4 * c10::multiply_integers(shape);
  for (const LinearTraits& linear : subject.spec.traits.linears) {
    const Sharding sharding = plan_entry(plan, linear.name).sharding;
    if (std::holds_alternative<Replicated>(sharding)) continue;
    sharded += 4 * linear.out_features * linear.in_features;
    if (std::holds_alternative<Colwise>(sharding)) sharded += 4 * linear.out_features;
  }
  const NamedTensors inputs = to_dtype(subject.inputs({}, "randn", 0, 4), at::kFloat);
  const RunResult run =
      run_end_to_end(subject, {&find_strategy("tp"), MeshShape({{Axis::tp, 4}}), at::kFloat, "kokkos_flash", nullptr}, inputs, 1);
  for (const RankResult& rank : run.ranks) EXPECT_EQ(rank.weight_bytes, full - sharded + sharded / 4);
}

}  // namespace
}  // namespace shardproof
