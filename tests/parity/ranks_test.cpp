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
    request.candidates = parse_candidates("all", ranks, std::nullopt);
    request.dtypes = parse_dtypes("fp64,fp32,bf16,fp16");
    request.families = input_families();
    request.steps = {1, 4};
    request.attention = "kokkos_flash";
    return verify(subject, request);
  }
};
INSTANTIATE_TEST_SUITE_P(N, Ranks, testing::Values(2, 3, 4, 6, 8), testing::PrintToStringParamName());

TEST_P(Ranks, EveryStrategyPassesWhere24HeadsDivide) {
  const auto rows = run(load_subject("flux1-tiny", 0), GetParam());
  EXPECT_EQ(rows.size(), all_strategies().size() * 4 * 3 * 2);
  for (const Row& row : rows)
    EXPECT_EQ(status_name(row.status), "pass") << row.strategy << " " << dtype_name(row.dtype) << " " << row.family << ": " << row.reason.value_or("");
}

TEST_P(Ranks, TheCommittedCheckpointPassesOrSaysWhyNot) {  // 4 heads
  for (const Row& row : run(load_subject(test::oracle_checkpoint().string(), 0), GetParam())) {
    const bool by_heads = row.strategy == "ulysses" || row.strategy == "tp";
    const bool legal = !by_heads || 4 % GetParam() == 0;
    EXPECT_EQ(status_name(row.status), legal ? "pass" : "failed") << row.strategy << " " << row.reason.value_or("");
    if (!legal) {
      EXPECT_NE(row.reason.value_or("").find("4 heads"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shardproof
