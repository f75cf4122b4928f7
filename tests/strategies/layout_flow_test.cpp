#include "strategies/layout_flow.hpp"

#include "core/region_builder.hpp"
#include "strategies/plan_check.hpp"
#include "strategies/plan_repair.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// Rules of all faults, in order.
std::vector<std::string> rules(const Region& region, const Shardings& shardings) {
  std::vector<std::string> names;
  for (const FlowFault& fault : follow_layouts(region, shardings).faults) names.push_back(fault.rule);
  return names;
}

using Rules = std::vector<std::string>;

/// in [8] → up [8] → act → down [8].
Region feed_forward() {
  RegionBuilder region("");
  region.output(region.linear(region.unary(region.linear(region.input("x", 8), {"up", 8, 8}), "gelu"), {"down", 8, 8}), "y");
  return region.build();
}

TEST(LayoutFlow, PairsColwiseWithRowwise) {
  EXPECT_EQ(rules(feed_forward(), {}), Rules{});
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{}}, {"down", Rowwise{}}}), Rules{});
  EXPECT_EQ(follow_layouts(feed_forward(), {{"up", Colwise{}}, {"down", Rowwise{}}}).all_reduces, 1);
  EXPECT_EQ(rules(feed_forward(), {{"up", Rowwise{{}, true}}, {"down", Rowwise{{}, true}}}), Rules{});
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{}}}), Rules{"unreduced-output"});
  EXPECT_EQ(rules(feed_forward(), {{"down", Colwise{}}}), Rules{"unreduced-output"});
  EXPECT_EQ(rules(feed_forward(), {{"down", Rowwise{}}}), Rules{"rowwise-input"});
  EXPECT_NE(follow_layouts(feed_forward(), {{"down", Rowwise{}}}).faults[0].why.find("rowwise_split_input takes a whole one"),
            std::string::npos);
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{}}, {"down", Rowwise{{}, true}}}), Rules{"split-input"});
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{}}, {"down", Colwise{}}}), (Rules{"colwise-input"}));
  EXPECT_EQ(rules(feed_forward(), {{"up", Rowwise{}}, {"down", Colwise{}}}), (Rules{"rowwise-input", "unreduced-output"}));
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{{1, 1}}}, {"down", Rowwise{}}}), Rules{"packed-input"});
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{{1, 1}}}, {"down", Rowwise{{1, 1}, false}}}), Rules{});
  EXPECT_EQ(rules(feed_forward(), {{"up", Colwise{{1, 2}}}, {"down", Rowwise{}}}), Rules{"blocks"});
}

/// D-02: cat(attn [4], mlp [4]) → out.
Region two_streams() {
  RegionBuilder region("");
  const auto x = region.input("x", 8);
  const auto joined = region.concat({region.linear(x, {"attn", 2, 8}), region.linear(x, {"mlp", 6, 8})}, "cat");
  region.output(region.linear(joined, {"out", 8, 8}), "y");
  return region.build();
}

TEST(LayoutFlow, AConcatenationOfShardsIsPacked) {  // sglang#21664
  Shardings plan{{"attn", Colwise{}}, {"mlp", Colwise{}}, {"out", Rowwise{}}};
  EXPECT_EQ(rules(two_streams(), plan), Rules{"packed-input"});
  EXPECT_EQ(repaired(two_streams(), plan)->at("out"), Sharding(Rowwise{{1, 3}, false}));
  plan["out"] = Rowwise{{3, 1}, false};
  EXPECT_EQ(rules(two_streams(), plan), Rules{"packed-input"});
  plan["out"] = Rowwise{{1, 3}, false};
  EXPECT_EQ(rules(two_streams(), plan), Rules{});
  plan.erase("mlp");
  EXPECT_EQ(rules(two_streams(), plan), Rules{"rowwise-input"});
  EXPECT_EQ(repaired(two_streams(), plan)->at("mlp"), Sharding(Colwise{}));
}

/// D-03: [gate | up] of one Linear, multiplied.
Region gated() {
  RegionBuilder region("");
  const auto halves = region.split(region.linear(region.input("x", 8), {"in", 8, 8}), {4, 4}, "the halves");
  region.output(region.linear(region.multiply(region.unary(halves[0], "silu"), halves[1], "gate × up"), {"out", 8, 4}), "y");
  return region.build();
}

TEST(LayoutFlow, AFusedOutputIsCutBlockByBlock) {  // vllm#3775
  Shardings plan{{"in", Colwise{}}, {"out", Rowwise{}}};
  EXPECT_EQ(rules(gated(), plan), Rules{"packed-output"});
  EXPECT_EQ(repaired(gated(), plan)->at("in"), Sharding(Colwise{{1, 1}}));
  plan["in"] = Colwise{{1, 3}};
  EXPECT_EQ(rules(gated(), plan), Rules{"packed-output"});
  plan["in"] = Colwise{{1, 1}};
  EXPECT_EQ(rules(gated(), plan), Rules{});
  plan["in"] = Colwise{{1, 1, 1, 1}};  // finer blocks are right where the partner has them too
  plan["out"] = Rowwise{{1, 1}, false};
  EXPECT_EQ(rules(gated(), plan), Rules{});
}

TEST(LayoutFlow, ANestedSplitNeedsItsFinestBlocks) {
  RegionBuilder region("");
  const auto parts = region.split(region.linear(region.input("x", 4), {"in", 18, 4}), {6, 12}, "QKV and MLP");
  for (const auto& part : region.split(parts[0], {2, 2, 2}, "QKV")) region.unary(part, "x");
  region.split(parts[1], {6, 6}, "gate and up");
  EXPECT_EQ(output_blocks(region.build(), "in"), (std::vector<int64_t>{2, 2, 2, 6, 6}));
}

TEST(LayoutFlow, EveryBlockMustDivide) {  // D-03: 16 is even, block 5 is not divisible by 2
  RegionBuilder region("");
  const auto parts = region.split(region.linear(region.input("x", 2), {"in", 16, 2}), {2, 2, 2, 5, 5}, "the blocks");
  const auto wide = region.concat(parts, "cat");
  region.output(region.linear(wide, {"out", 2, 16}), "y");
  const Dataflow dataflow{{region.build()}, {}};
  const PlanEntries plan{{"in", Colwise{{2, 2, 2, 5, 5}}}, {"out", Rowwise{{2, 2, 2, 5, 5}, false}}};
  const PlanReport report = check_plan(dataflow, plan, {2});
  ASSERT_FALSE(report.faults.empty());
  EXPECT_EQ(fault_text(report.faults[0]),
            "\"in\": {\"style\":\"packed_colwise\",\"blocks\":[2,2,2,5,5]} (in) at tp 2: block 3 (size 5) of its 16 rows are not "
            "divisible by it");
  EXPECT_EQ(report.legal_degrees, (std::vector<int64_t>{1}));
}

/// Attention with its own number of key/value heads; q and k normed over `norm` features (0: not at all).
Region attention(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t norm = 0) {
  const int64_t h = heads * head_dim, kv = kv_heads * head_dim;
  RegionBuilder region("");
  const auto x = region.input("x", h);
  const auto projected = [&](const char* name, int64_t width, bool normed) {
    auto y = region.linear(x, {name, width, h});
    if (normed && norm > head_dim) y = region.norm(y, std::string("norm_") + name, norm);
    y = region.heads(y, head_dim);
    return normed && norm == head_dim ? region.norm(y, std::string("norm_") + name, norm) : y;
  };
  const auto q = projected("q", h, norm > 0), k = projected("k", kv, norm > 0), v = projected("v", kv, false);
  region.output(region.linear(region.merge_heads(region.attention(q, k, v, "attn")), {"o", h, h}), "y");
  return region.build();
}

const Shardings paired{{"q", Colwise{}}, {"k", Colwise{}}, {"v", Colwise{}}, {"o", Rowwise{}}};

TEST(LayoutFlow, FewerKeyValueHeadsThanRanksAreRefused) {  // D-11, transformers#48307: 4 query heads, 2 K/V heads
  const Dataflow dataflow{{attention(4, 2, 2)}, {}};
  const PlanEntries plan(paired.begin(), paired.end());
  EXPECT_TRUE(check_plan(dataflow, plan, {1, 2}).faults.empty());
  const PlanReport report = check_plan(dataflow, plan, {2, 4});
  ASSERT_EQ(report.faults.size(), 1u);
  EXPECT_EQ(fault_text(report.faults[0]), "tp 4: 2 key/value heads of attn are not divisible by it; accepted: 1, 2");
  EXPECT_EQ(report.legal_degrees, (std::vector<int64_t>{1, 2}));
}

TEST(LayoutFlow, BlocksOfHeadsAreWholeHeads) {
  Shardings plan = paired;
  for (const char* name : {"q", "k", "v"}) plan[name] = Colwise{{1, 1, 1, 1, 1, 1, 1, 1}};  // half heads
  EXPECT_EQ(rules(attention(4, 4, 2), plan), (Rules{"heads", "heads", "heads"}));
  for (const char* name : {"q", "k", "v"}) plan[name] = Colwise{{1, 1}};  // the first and the last two heads apart: legal
  EXPECT_EQ(rules(attention(4, 4, 2), plan), Rules{"packed-input"});
  plan["o"] = Rowwise{{1, 1}, false};
  EXPECT_EQ(rules(attention(4, 4, 2), plan), Rules{});
  plan["k"] = Colwise{};
  EXPECT_EQ(rules(attention(4, 4, 2), plan), Rules{"partners"});
}

TEST(LayoutFlow, ANormAcrossHeadsNeedsAReduction) {  // D-06, exllamav3#141
  EXPECT_EQ(rules(attention(4, 4, 2, 2), paired), Rules{});
  EXPECT_EQ(rules(attention(4, 4, 2, 8), paired), (Rules{"norm", "norm"}));
  const FlowFault fault = follow_layouts(attention(4, 4, 2, 8), paired).faults[0];
  EXPECT_NE(fault.why.find("norm_q is taken over 8 features, which are sharded by q"), std::string::npos) << fault.why;
  EXPECT_NE(fault.why.find("needs a reduction"), std::string::npos) << fault.why;
}

/// A partial sum: the features of two sharded values, multiplied and added up on each rank.
struct Partial {
  RegionBuilder region{""};
  flow::Value sum;
  Partial() {
    const auto x = region.input("x", 8);
    sum = region.contract(region.linear(x, {"a", 8, 8}), region.linear(x, {"b", 8, 8}), "the sum");
  }
};

TEST(LayoutFlow, APartialSumAllowsOnlyWhatIsLinear) {
  const Shardings plan{{"a", Colwise{}}, {"b", Colwise{}}};
  const auto verdict = [&](const auto& use) {
    Partial partial;
    use(partial.region, partial.sum);
    return rules(partial.region.build(), plan);
  };
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.linear_unary(sum, "scale"); }), Rules{});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.add(sum, sum, "twice"); }), Rules{});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.multiply(sum, r.input("gate", 1), "the gate"); }), Rules{});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.unary(sum, "gelu"); }), Rules{"partial-sum"});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.norm(sum, "", 1); }), Rules{"partial-sum"});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.multiply(sum, sum, "the square"); }), Rules{"partial-sum"});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.add(sum, r.input("bias", 1), "the bias"); }),
            Rules{"partial-sum"});  // D-01's kind
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.linear(sum, {"next", 4, 1}); }), Rules{"partial-sum"});
  EXPECT_EQ(verdict([](auto& r, const auto& sum) { r.output(sum, "y"); }), Rules{"partial-sum"});
  EXPECT_EQ(rules(Partial().region.build(), {}), Rules{});
}

TEST(LayoutFlow, PartnersMustBeShardedAlike) {
  RegionBuilder region("");
  const auto x = region.input("x", 8);
  const auto product = region.multiply(region.linear(x, {"a", 8, 8}), region.linear(x, {"b", 8, 8}), "a × b");
  region.output(region.linear(product, {"out", 8, 8}), "y");
  const Region built = region.build();
  EXPECT_EQ(rules(built, {{"a", Colwise{}}, {"b", Colwise{}}, {"out", Rowwise{}}}), Rules{});
  EXPECT_EQ(rules(built, {{"a", Colwise{}}, {"b", Colwise{{1, 1}}}, {"out", Rowwise{}}}), Rules{"partners"});
  EXPECT_EQ(rules(built, {{"a", Colwise{{1, 3}}}, {"b", Colwise{{3, 1}}}, {"out", Rowwise{}}}), Rules{"partners"});
  EXPECT_EQ(rules(built, {{"a", Colwise{}}, {"out", Rowwise{}}}), Rules{"sharded-meets-whole"});
}

TEST(LayoutFlow, ASplitCutsWhatARankHoldsInProportion) {  // where only one part is smaller on a rank, the cut is elsewhere
  RegionBuilder region("");
  const auto x = region.input("x", 8);
  const auto joined = region.concat({region.linear(x, {"a", 4, 8}), region.linear(x, {"b", 4, 8})}, "cat");
  region.split(joined, {4, 4}, "the halves");
  const Region built = region.build();
  EXPECT_EQ(rules(built, {{"a", Colwise{}}, {"b", Colwise{}}}), Rules{});
  EXPECT_EQ(rules(built, {{"a", Colwise{}}}), Rules{"packed-output"});
}

TEST(LayoutFlow, QueriesAreShardedAsKeysAndValues) {
  Shardings plan = paired;
  plan.erase("q");
  EXPECT_EQ(rules(attention(4, 2, 2), plan), Rules{"sharded-meets-whole"});
  EXPECT_EQ(repaired(attention(4, 2, 2), plan)->at("q"), Sharding(Colwise{}));
  plan["q"] = Colwise{{1, 1}};
  EXPECT_EQ(rules(attention(4, 2, 2), plan), Rules{"partners"});
  for (const char* name : {"k", "v"}) plan[name] = Colwise{{1, 1}};  // each half of the heads with its key/value head
  plan["o"] = Rowwise{{1, 1}, false};
  EXPECT_EQ(rules(attention(4, 2, 2), plan), Rules{});
}

}  // namespace
}  // namespace shardproof
