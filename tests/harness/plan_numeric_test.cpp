#include "harness/plan_numeric.hpp"

#include "core/plan_json.hpp"
#include "harness/planned_model.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

class PlanNumeric : public testing::TestWithParam<const char*> {
 protected:
  PlannedModel model_ = load_planned_model(GetParam());
  Subject subject_ = load_subject(GetParam(), 0);

  NumericVerdict run(const PlanEntries& plan, int64_t degree = 2) {
    return check_plan_numerically(subject_, model_.dataflow, plan, {degree}, [](const std::string&) {}).front();
  }
};
INSTANTIATE_TEST_SUITE_P(Models, PlanNumeric, testing::Values("flux1-tiny", "flux2-tiny", "qwen-image-tiny"), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(PlanNumeric, TheShippedPlanPasses) {
  const NumericVerdict verdict = run(in_proportion(model_.tp_plan), 3);
  EXPECT_EQ(verdict.row.status, Status::pass) << verdict.row.reason.value_or("");
  EXPECT_TRUE(verdict.explained.empty());
}

/// A plan may shard one feed-forward alone: the rest, attention too, is then whole on every rank.
TEST_P(PlanNumeric, APartOfThePlanPasses) {
  PlanEntries part;
  for (const auto& [key, sharding] : in_proportion(model_.tp_plan))
    if (key.find(".ff.") != std::string::npos || key.find("img_mlp") != std::string::npos) part[key] = sharding;
  ASSERT_EQ(part.size(), 2u);
  const NumericVerdict verdict = run(part);
  EXPECT_EQ(verdict.row.status, Status::pass) << verdict.row.reason.value_or("");
}

/// Take an entry out, or give it the other style: whether the run breaks on a shape or quietly gives other numbers, the
/// answer names a module and is explained by the static check.
TEST_P(PlanNumeric, EveryWrongEntryIsAnsweredInTermsOfThePlan) {
  int shapes = 0;
  for (const auto& [key, sharding] : model_.tp_plan) {
    PlanEntries swapped = in_proportion(model_.tp_plan);
    swapped[key] = std::holds_alternative<Colwise>(sharding) ? Sharding(Rowwise{}) : Sharding(Colwise{});
    const NumericVerdict verdict = run(swapped);
    EXPECT_TRUE(verdict.row.status == Status::mismatch || verdict.row.status == Status::error) << key << " " << status_name(verdict.row.status);
    EXPECT_FALSE(verdict.module.empty()) << key << ": " << verdict.row.reason.value_or("");
    EXPECT_FALSE(verdict.explained.empty()) << key;
    const bool names = std::any_of(verdict.explained.begin(), verdict.explained.end(), [&](const PlanFault& f) { return f.key == key; });
    EXPECT_TRUE(names) << key << ": " << numeric_text({verdict});
    if (verdict.row.status == Status::error) {
      ++shapes;
      EXPECT_NE(verdict.row.reason.value_or("").find("[plan] a shape does not fit after"), std::string::npos) << verdict.row.reason.value_or("");
    }
  }
  EXPECT_GT(shapes, 0);
}

/// diffusers 0.42.1 runs this without a word and returns another shape.
TEST_P(PlanNumeric, AnExtraColwiseProjOutIsFound) {
  PlanEntries extra = in_proportion(model_.tp_plan);
  extra["proj_out"] = Colwise{};
  const NumericVerdict verdict = run(extra);
  EXPECT_NE(verdict.row.status, Status::pass);
  EXPECT_NE(numeric_text({verdict}).find("proj_out"), std::string::npos);
}

TEST(PlanNumericModel, RealSizesRunOnTheTinyModelOfTheFamily) {
  EXPECT_EQ(numeric_model("flux2-dev"), "flux2-tiny");
  EXPECT_EQ(numeric_model("flux1-small"), "flux1-tiny");
  EXPECT_EQ(numeric_model("qwen-image"), "qwen-image-tiny");
  EXPECT_EQ(numeric_model("qwen-image-tiny"), "qwen-image-tiny");
  EXPECT_EQ(numeric_model("some/folder"), "some/folder");
}

}  // namespace
}  // namespace shardproof
