#include "strategies/plan_check.hpp"

#include "tests/strategies/plan_mutants.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

using test::faults_text;
using test::plan_subject;

/// Counted with diffusers 0.42.1 itself: `resolve_tp_shard_specs` on the model on the meta device.
struct Published {
  const char* model;
  int64_t parameters;
  std::vector<int64_t> per_rank;  ///< at tp 2, 3, 4, 6, 8
  std::vector<double> gigabytes;  ///< in bf16 at tp 2, 4, 8, as published
  int64_t all_reduces;
};

class ShippedPlan : public testing::TestWithParam<Published> {};

TEST_P(ShippedPlan, HasItsPublishedSizesAtEveryDegree) {
  const auto& subject = plan_subject(GetParam().model);
  const PlanReport report = check_plan(subject.dataflow, subject.plan, {2, 3, 4, 6, 8});
  EXPECT_EQ(report.parameters, GetParam().parameters);
  EXPECT_EQ(report.per_rank, GetParam().per_rank);
  for (const auto& [index, published] : {std::pair{0, 0}, {2, 1}, {4, 2}})
    EXPECT_NEAR(static_cast<double>(report.per_rank[index]) * 2 / 1e9, GetParam().gigabytes[published], 0.0051);
  EXPECT_EQ(report.all_reduces, GetParam().all_reduces);
  int64_t of_entries = 0, saved = 0;
  for (const EntryReport& entry : report.entries) {
    of_entries += entry.all_reduces;
    saved += entry.saved[0];
  }
  EXPECT_EQ(of_entries, report.all_reduces);
  EXPECT_EQ(report.parameters - saved, report.per_rank[0]);
}

TEST_P(ShippedPlan, RaisesNothing) {
  const auto& subject = plan_subject(GetParam().model);
  const PlanReport report = check_plan(subject.dataflow, subject.plan, {1, 2, 3, 4, 6, 8});
  EXPECT_TRUE(report.faults.empty()) << faults_text(report);
  for (const int64_t degree : {1, 2, 3, 4, 6, 8})
    EXPECT_TRUE(std::count(report.legal_degrees.begin(), report.legal_degrees.end(), degree)) << degree;
  for (const EntryReport& entry : report.entries) EXPECT_TRUE(entry.good) << entry.key;
  EXPECT_FALSE(report.repaired);
}

INSTANTIATE_TEST_SUITE_P(Models, ShippedPlan,
                         testing::Values(Published{"flux1",
                                                   11'901'408'320,
                                                   {7'597'235'264, 6'162'510'912, 5'445'148'736, 4'727'786'560, 4'369'105'472},
                                                   {15.19, 10.89, 8.74},
                                                   19 * 4 + 38},
                                         Published{"flux2",
                                                   32'223'281'152,
                                                   {16'519'806'976, 11'285'315'584, 8'668'069'888, 6'050'824'192, 4'742'201'344},
                                                   {33.04, 17.34, 9.48},
                                                   8 * 4 + 48},
                                         Published{"qwen-image",
                                                   20'430'401'088,
                                                   {13'634'338'368, 11'368'984'128, 10'236'307'008, 9'103'629'888, 8'537'291'328},
                                                   {27.27, 20.47, 17.07},
                                                   60 * 4}));

class Mutant : public testing::TestWithParam<test::PlanMutant> {};

TEST_P(Mutant, IsFoundAndNamesTheEntry) {
  const auto& [model, name, plan, keys, restores] = GetParam();
  const auto& subject = plan_subject(model);
  const PlanReport report = check_plan(subject.dataflow, plan, {2, 4});
  ASSERT_FALSE(report.faults.empty()) << name;
  for (const auto& key : keys) {
    const auto named = [&](const PlanFault& fault) { return fault.key == key && !fault.why.empty(); };
    EXPECT_TRUE(std::any_of(report.faults.begin(), report.faults.end(), named)) << name << ": " << key << " is not named in\n"
                                                                                << faults_text(report);
    const auto entry = std::find_if(report.entries.begin(), report.entries.end(), [&](const auto& e) { return e.key == key; });
    EXPECT_TRUE(entry == report.entries.end() || !entry->good) << key;
  }
  ASSERT_TRUE(report.repaired) << name << ": no right plan is proposed\n" << faults_text(report);
  EXPECT_EQ(restores, plan_json(*report.repaired) == plan_json(subject.plan)) << name << "\n" << faults_text(report);
  EXPECT_TRUE(check_plan(subject.dataflow, *report.repaired, {2, 4}).faults.empty()) << name;
}

INSTANTIATE_TEST_SUITE_P(Plans, Mutant, testing::ValuesIn(test::plan_mutants()),
                         [](const auto& info) { return std::to_string(info.index); });

TEST(PlanMutants, AreManyAndOfEveryModel) { EXPECT_GE(test::plan_mutants().size(), 150u); }

/// The one fault of a plan with one entry changed.
std::string only_fault(const std::string& model, const std::string& key, const Sharding& style) {
  const auto& subject = plan_subject(model);
  PlanEntries plan = subject.plan;
  plan[key] = style;
  const PlanReport report = check_plan(subject.dataflow, plan, {2, 4});
  EXPECT_EQ(report.faults.size(), 1u) << faults_text(report);
  return report.faults.empty() ? "" : fault_text(report.faults[0]);
}

TEST(PlanCheck, ShardedStreamsConcatenatedNeedPackedRowwise) {  // D-02, sglang#21664
  EXPECT_EQ(only_fault("flux2", "single_transformer_blocks.*.attn.to_out", Rowwise{}),
            "\"single_transformer_blocks.*.attn.to_out\": \"rowwise\" (48 modules, single_transformer_blocks.0.attn.to_out …) at "
            "tp 2, 4: in "
            "single_transformer_blocks.*: the columns of attn.to_out are cut in [24576], its input is sharded in blocks [6144, "
            "18432] by "
            "attn.to_qkv_mlp_proj; right: "
            "{\"single_transformer_blocks.*.attn.to_out\":{\"style\":\"packed_rowwise\",\"blocks\":[1,3]}}");
}

TEST(PlanCheck, FusedGateAndUpNeedPackedColwise) {  // D-03, vllm#3775
  EXPECT_EQ(only_fault("flux2", "transformer_blocks.*.ff.linear_in", Colwise{}),
            "\"transformer_blocks.*.ff.linear_in\": \"colwise\" (8 modules, transformer_blocks.0.ff.linear_in …) at tp 2, 4: in "
            "transformer_blocks.*: the SwiGLU of ff cuts the output of ff.linear_in in [18432, 18432], on a rank that output is "
            "one contiguous share; "
            "right: {\"transformer_blocks.*.ff.linear_in\":{\"style\":\"packed_colwise\",\"blocks\":[1,1]}}");
}

TEST(PlanCheck, AModulationMayBeShardedBySplittingItsInput) {
  const auto& subject = plan_subject("flux1");
  PlanEntries plan = subject.plan;
  plan["transformer_blocks.*.norm1.linear"] = Rowwise{{}, true};
  const PlanReport report = check_plan(subject.dataflow, plan, {2, 3, 4, 6, 8});
  EXPECT_TRUE(report.faults.empty()) << faults_text(report);
  EXPECT_EQ(report.all_reduces, 19 * 4 + 38 + 19);
  for (const Sharding& wrong : {Sharding(Colwise{}), Sharding(Rowwise{})})
    EXPECT_NE(only_fault("flux1", "transformer_blocks.*.norm1.linear", wrong)
                  .find("right: {\"transformer_blocks.*.norm1.linear\":\"rowwise_split_input\"}"),
              std::string::npos);
}

TEST(PlanCheck, AnExtraColwiseAtTheEndChangesTheOutputsShape) {
  const std::string fault = only_fault("qwen-image", "proj_out", Colwise{});
  EXPECT_NE(fault.find("reaches the output of the model while sharded: its shape changes"), std::string::npos) << fault;
}

TEST(PlanCheck, HeadsThatDoNotDivideAreOneFault) {
  const auto& subject = plan_subject("flux1");
  const PlanReport report = check_plan(subject.dataflow, subject.plan, {2, 5, 7});
  EXPECT_EQ(faults_text(report),
            "tp 5, 7: 24 heads of transformer_blocks.*.attn, single_transformer_blocks.*.attn are not divisible by it; accepted: "
            "1, 2, 3, 4, 6, "
            "8, 12, 24\n");
  test::expect_error(Fault::input, {"tp 0", "from 1"}, [&] { check_plan(subject.dataflow, subject.plan, {0}); });
  test::expect_error(Fault::input, {"tp -1"}, [&] { check_plan(subject.dataflow, subject.plan, {-1}); });
}

TEST(PlanCheck, APlanOfOneBlockOnlyIsFollowedInThatBlock) {
  const auto& subject = plan_subject("flux1");
  PlanEntries plan{{"transformer_blocks.3.ff.net.0.proj", Colwise{}}};
  const PlanReport report = check_plan(subject.dataflow, plan, {2});
  ASSERT_EQ(report.faults.size(), 1u) << faults_text(report);
  EXPECT_EQ(report.faults[0].fix, (std::vector<PlanEdit>{{"transformer_blocks.3.ff.net.2", Rowwise{}}}));
  plan["transformer_blocks.3.ff.net.2"] = Rowwise{};
  const PlanReport right = check_plan(subject.dataflow, plan, {2});
  EXPECT_TRUE(right.faults.empty()) << faults_text(right);
  EXPECT_EQ(right.all_reduces, 1);
}

TEST(PlanCheck, AFaultBehindAFaultIsToldToo) {  // plain halves on both sides of a fused block
  const auto& subject = plan_subject("flux2");
  PlanEntries plan = subject.plan;
  plan["single_transformer_blocks.*.attn.to_qkv_mlp_proj"] = Colwise{};
  plan["single_transformer_blocks.*.attn.to_out"] = Rowwise{};
  const PlanReport report = check_plan(subject.dataflow, plan, {2});
  ASSERT_EQ(report.faults.size(), 2u) << faults_text(report);
  EXPECT_EQ(report.faults[0].rule, "packed-output");
  EXPECT_EQ(report.faults[1].rule, "packed-input");
  EXPECT_EQ(report.faults[1].fix, (std::vector<PlanEdit>{{"single_transformer_blocks.*.attn.to_out", Rowwise{{1, 3}, false}}}));
}

TEST(PlanCheck, EveryChangeOfTheRepairIsAFaultsFix) {
  for (const auto& mutant : test::plan_mutants()) {
    const auto& subject = plan_subject(mutant.model);
    const PlanReport report = check_plan(subject.dataflow, mutant.plan, {2});
    PlanEntries fixed = mutant.plan;
    for (const PlanFault& fault : report.faults)
      for (const PlanEdit& edit : fault.fix) {
        fixed.erase(edit.key);
        if (edit.style) fixed[edit.key] = *edit.style;
      }
    EXPECT_EQ(fixed, report.repaired.value_or(PlanEntries{})) << mutant.name;
  }
}

TEST(PlanCheck, ASlipInAKeyIsOneFault) {  // not a missing partner as well
  const auto& subject = plan_subject("flux2");
  PlanEntries plan = subject.plan;
  plan.erase("transformer_blocks.*.ff.linear_out");
  plan["transformer_blocks.*.ff.linear_ou"] = Rowwise{};
  plan["transformer_blocks.*.ff.linear_in"] = Colwise{};
  const PlanReport report = check_plan(subject.dataflow, plan, {2});
  ASSERT_EQ(report.faults.size(), 2u) << faults_text(report);
  EXPECT_EQ(fault_text(report.faults[0]),
            "\"transformer_blocks.*.ff.linear_ou\": \"rowwise\" matches nothing: the model has no module "
            "transformer_blocks.0.ff.linear_ou; did you "
            "mean {\"transformer_blocks.*.ff.linear_out\":\"rowwise\"}");
  ASSERT_TRUE(report.repaired);
  EXPECT_EQ(plan_json(*report.repaired), plan_json(subject.plan));
  EXPECT_EQ(report.all_reduces, 8 * 3 + 48);  // what the plan as it is does
}

TEST(PlanCheck, TwoEntriesForOneModuleAreAFault) {
  const auto& subject = plan_subject("flux1");
  PlanEntries plan = subject.plan;
  plan["transformer_blocks.0.attn.to_q"] = Colwise{};
  const PlanReport report = check_plan(subject.dataflow, plan, {2});
  ASSERT_FALSE(report.faults.empty());
  EXPECT_NE(faults_text(report).find("which \"transformer_blocks.*.attn.to_q\" names too"), std::string::npos)
      << faults_text(report);
}

TEST(PlanCheck, EveryShardedWeightIsItsShare) {  // D-13: a key that matched nothing would show in the bytes
  const auto& subject = plan_subject("flux1");
  const PlanReport report = check_plan(subject.dataflow, subject.plan, {2, 4, 8});
  for (const EntryReport& entry : report.entries) {
    EXPECT_EQ(entry.modules.size(), entry.key.starts_with("single") ? 38u : 19u) << entry.key;
    for (size_t d = 0; d < 3; ++d)
      EXPECT_EQ(entry.local[d][0] * entry.local[d][1] * report.degrees[d], entry.out_features * entry.in_features) << entry.key;
  }
}

}  // namespace
}  // namespace shardproof
