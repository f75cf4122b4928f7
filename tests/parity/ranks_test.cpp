#include "core/dtype.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"
#include "harness/records.hpp"
#include "harness/table.hpp"
#include "strategies/registry.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// Every strategy on N virtual ranks in every dtype and input family, 1 and 4 steps. A pass means: every module and block on
/// the single device's inputs, and the latents, within their gates, and traffic equal to wire_cost to the byte.
class Ranks : public testing::TestWithParam<int> {
 protected:
  static std::vector<Row> run(const Subject& subject, int ranks) {
    VerifyRequest request;
    request.dtypes = parse_dtypes("fp64,fp32,bf16,fp16");
    request.families = input_families();
    request.steps = {1, 4};
    request.attention = "kokkos_flash";
    const Legal legal = [&](const Strategy& strategy, const MeshShape& mesh) { return !cannot_run(subject, request, {&strategy, mesh}, at::kDouble); };
    request.candidates = parse_candidates("all", ranks, std::nullopt, legal);  // 4 heads on 6 ranks: ring 3 × ulysses 2
    return verify(subject, request);
  }
};
std::vector<MeshShape> meshes_of(const std::vector<Axis>& axes, int ranks) {
  std::vector<MeshShape> meshes;
  for (int first = 1; first <= ranks; ++first)
    for (int second = 1; first * second <= ranks; ++second) {
      if (ranks % (first * second) != 0 || (axes.size() == 2 && first * second != ranks)) continue;
      std::vector<std::pair<Axis, int>> degrees{{axes[0], first}, {axes[1], second}};
      if (axes.size() == 3) degrees.emplace_back(axes[2], ranks / first / second);
      meshes.emplace_back(degrees);
    }
  return meshes;
}

INSTANTIATE_TEST_SUITE_P(N, Ranks, testing::Values(2, 3, 4, 6, 8), testing::PrintToStringParamName());

TEST_P(Ranks, EveryStrategyPassesWhere24HeadsDivide) {
  const auto rows = run(load_subject("flux1-tiny", 0), GetParam());
  EXPECT_EQ(rows.size(), all_strategies().size() * 4 * 3 * 2);
  for (const Row& row : rows) {
    const bool two_degrees = row.strategy.starts_with("unified");
    EXPECT_EQ(status_name(row.status), two_degrees && GetParam() < 4 ? "failed" : "pass")
        << row.strategy << " " << dtype_name(row.dtype) << " " << row.family << ": " << row.reason.value_or("");
  }
}

/// Lengths that N does not divide, with two prompts' masks: the "anything" strategies and tp pass, the others say why not.
TEST_P(Ranks, UnevenLengthsAndMasks) {
  VerifyRequest request;
  request.candidates = parse_candidates("all", GetParam(), std::nullopt);
  request.dtypes = {at::kDouble, at::kBFloat16};
  request.families = {"negative_logits"};
  request.steps = {1};
  request.shape = {1, 5, 7, 13};
  request.attention = "kokkos_flash";
  request.padded_mask = true;
  for (const Row& row : verify(load_subject("flux1-tiny", 0), request)) {
    const bool any = row.strategy.find("anything") != std::string::npos && !(row.strategy == "unified_anything" && GetParam() < 4);
    const bool whole = row.strategy == "single" || row.strategy == "data_parallel" || row.strategy == "tp";
    EXPECT_EQ(status_name(row.status), any || whole ? "pass" : "failed") << row.strategy << " " << dtype_name(row.dtype) << row.reason.value_or("");
  }
}

/// TP × CP: every mesh of these axes over N ranks that the model's heads allow.
TEST_P(Ranks, ProductsOfTensorAndContextParallel) {
  const Subject subject = load_subject("flux1-tiny", 0);
  int passed = 0;
  for (const char* name : {"tp+ulysses", "tp+ring", "tp+ring_p2p", "tp+unified", "tp+ulysses_anything", "tp+ring_anything", "tp+unified_anything"})
    for (const MeshShape& mesh : meshes_of(find_strategy(name).axes(), GetParam())) {
      VerifyRequest request;
      request.candidates = {{&find_strategy(name), mesh}};
      request.dtypes = {at::kDouble, at::kBFloat16};
      request.families = {"structured"};
      request.steps = {1};
      request.attention = "kokkos_flash";
      for (const Row& row : verify(subject, request)) {
        const bool allowed = row.status == Status::failed && std::string(name).find("unified") != std::string::npos;  // a degree of 1
        EXPECT_TRUE(row.status == Status::pass || allowed) << name << " " << mesh.text() << " " << row.reason.value_or("");
        passed += row.status == Status::pass;
      }
    }
  EXPECT_GE(passed, 20);
}

TEST_P(Ranks, TheCommittedCheckpointPassesOrSaysWhyNot) {  // 4 heads
  for (const Row& row : run(load_subject(test::oracle_checkpoint().string(), 0), GetParam())) {
    const bool by_heads = row.strategy == "ulysses" || row.strategy == "tp";
    const bool two_degrees = row.strategy.starts_with("unified");
    const bool legal = two_degrees ? GetParam() >= 4 : !by_heads || 4 % GetParam() == 0;
    EXPECT_EQ(status_name(row.status), legal ? "pass" : "failed") << row.strategy << " " << row.reason.value_or("");
    if (!legal) {
      EXPECT_NE(row.reason.value_or("").find(two_degrees ? "at least 4 ranks" : "4 heads"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shardproof
