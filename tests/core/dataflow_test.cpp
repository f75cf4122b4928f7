#include "core/dataflow.hpp"

#include "core/region_builder.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

Region one(flow::Kind kind, std::vector<flow::Value> in, std::vector<flow::Value> out) {
  return {"blocks.{i}",
          3,
          {{flow::Input{8}, {}, {"x"}, "the input x"},
           {flow::Input{6}, {}, {"y"}, "the input y"},
           {std::move(kind), std::move(in), std::move(out), "the step"}}};
}

TEST(Dataflow, NamesModulesOfEveryBlock) {
  const Region region{"blocks.{i}", 3, {}};
  EXPECT_EQ(module_name(region, "attn.to_q", 2), "blocks.2.attn.to_q");
  EXPECT_EQ(module_glob(region, "attn.to_q"), "blocks.*.attn.to_q");
  EXPECT_EQ(module_glob(region, ""), "blocks.*");
  EXPECT_EQ(module_name({"", 1, {}}, "proj_out", 0), "proj_out");
}

TEST(Dataflow, WidthsFollowTheSteps) {
  RegionBuilder region("");
  const auto x = region.input("x", 8);
  const auto parts = region.split(region.linear(x, {"in", 12, 8}), {4, 8}, "the split");
  const auto joined = region.concat({parts[0], region.unary(parts[1], "gelu")}, "the cat");
  const auto sum = region.contract(joined, joined, "the sum");
  const auto widths = feature_widths(region.build());
  EXPECT_EQ(widths.at(parts[1]), 8);
  EXPECT_EQ(widths.at(joined), 12);
  EXPECT_EQ(widths.at(sum), 1);
}

TEST(Dataflow, StepsThatDoNotFitAreRefusedByName) {
  const auto refused = [](const Region& region, const std::vector<std::string>& words) {
    std::vector<std::string> all{"[dataflow]", "blocks.{i}", "the step"};
    all.insert(all.end(), words.begin(), words.end());
    test::expect_error(Fault::input, all, [&] { feature_widths(region); });
  };
  refused(one(flow::Unary{"gelu"}, {"z"}, {"w"}), {"\"z\" is used before it is made"});
  refused(one(flow::Unary{"gelu"}, {"x"}, {"y"}), {"\"y\" is made twice"});
  refused(one(flow::Unary{"gelu"}, {"x"}, {"v", "w"}), {"makes 1 values, not 2"});
  refused(one(flow::Linear{"fc", 4, 6}, {"x"}, {"w"}), {"8 features, not 6"});
  refused(one(flow::Split{{4, 5}}, {"x"}, {"v", "w"}), {"8 features, not 9"});
  refused(one(flow::Heads{3}, {"x"}, {"w"}), {"no whole heads of 3"});
  refused(one(flow::Norm{"norm", 3}, {"x"}, {"w"}), {"norms 3 of 8"});
  refused(one(flow::Add{}, {"x", "y"}, {"w"}), {"8 and 6"});
  refused(one(flow::Add{}, {"x"}, {"w"}), {"takes 2 values, not 1"});
  refused(one(flow::JoinTokens{}, {"x", "y"}, {"w"}), {"8 and 6"});
  refused(one(flow::Attention{"attn"}, {"x", "y", "y"}, {"w"}), {"8, 6, 6"});
  EXPECT_NO_THROW(feature_widths(one(flow::Concat{}, {"x", "y"}, {"w"})));
}

TEST(Dataflow, ParametersOfEveryBlock) {
  RegionBuilder region("blocks.{i}", 2);
  region.output(region.norm(region.linear(region.input("x", 4), {"fc", 6, 4, false}), "norm", 6), "y");
  const std::map<std::string, std::vector<int64_t>> expected{{"blocks.0.fc.weight", {6, 4}},
                                                             {"blocks.0.norm.weight", {6}},
                                                             {"blocks.1.fc.weight", {6, 4}},
                                                             {"blocks.1.norm.weight", {6}}};
  EXPECT_EQ(parameters({{region.build()}, {}}), expected);
}

}  // namespace
}  // namespace shardproof
