#include "core/plan_json.hpp"

#include "core/region_builder.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

PlanFile parse(const std::string& text) { return parse_plan(parse_json(text, "plan.json"), "plan.json"); }

/// A model whose `in` stores [2, 6] rows and whose `out` stores [6, 2] columns.
Dataflow stored() {
  RegionBuilder region("blocks.{i}", 2);
  const auto x = region.linear(region.input("x", 4), {"in", 8, 4, true, {2, 6}, {}});
  region.output(region.linear(x, {"out", 4, 8, true, {}, {6, 2}}), "y");
  return {{region.build()}, {}};
}

TEST(PlanJson, ReadsEveryStyle) {
  const PlanFile plan = parse(R"({"a": "colwise", "b": "rowwise", "c": "rowwise_split_input", "d": "replicated",
    "e": {"style": "packed_colwise", "blocks": [1, 1]}, "f": {"style": "packed_rowwise", "blocks": [3072, 12288]},
    "g": {"style": "packed_rowwise", "blocks": "stored"}, "h": {"style": "packed_colwise"}, "i": {"style": "colwise"}})");
  EXPECT_EQ(plan.at("a"), (PlannedStyle{Colwise{}}));
  EXPECT_EQ(plan.at("b"), (PlannedStyle{Rowwise{}}));
  EXPECT_EQ(plan.at("c"), (PlannedStyle{Rowwise{{}, true}}));
  EXPECT_EQ(plan.at("d"), (PlannedStyle{Replicated{}}));
  EXPECT_EQ(plan.at("e"), (PlannedStyle{Colwise{{1, 1}}}));
  EXPECT_EQ(plan.at("f"), (PlannedStyle{Rowwise{{3072, 12288}, false}}));
  EXPECT_EQ(plan.at("g"), (PlannedStyle{Rowwise{}, true}));
  EXPECT_EQ(plan.at("h"), (PlannedStyle{Colwise{}, true}));  // as diffusers' PackedColwiseParallel()
  EXPECT_EQ(plan.at("i"), (PlannedStyle{Colwise{}}));
}

TEST(PlanJson, ErrorsNameTheKeyWhatWasFoundAndWhatIsAccepted) {
  const auto refused = [](const std::string& style, const std::vector<std::string>& words) {
    std::vector<std::string> all{"plan.json", "\"blocks.*.to_q\"", "accepted"};
    all.insert(all.end(), words.begin(), words.end());
    test::expect_error(Fault::input, all, [&] { parse("{\"blocks.*.to_q\": " + style + "}"); });
  };
  refused("\"columnwise\"", {"unknown style \"columnwise\"", "\"colwise\"", "\"rowwise_split_input\"", "packed_rowwise"});
  refused("\"packed_colwise\"", {"packed_colwise needs blocks", "\"stored\""});
  refused("3", {"style is 3", "\"colwise\""});
  refused("null", {"style is null"});
  refused("{}", {"\"style\" is missing"});
  refused("{\"style\": \"packed\"}", {"unknown style \"packed\""});
  refused("{\"style\": \"colwise\", \"blocks\": [1]}", {"takes no blocks", "packed_colwise"});
  refused("{\"style\": \"packed_colwise\", \"block\": [1]}", {"unknown field \"block\"", "style, blocks"});
  for (const char* blocks : {"[]", "[0, 1]", "[-1, 2]", "[1.5]", "[\"1\"]", "7", "\"saved\"", "[1, 99999999999]"})
    refused(std::string("{\"style\": \"packed_rowwise\", \"blocks\": ") + blocks + "}", {"blocks are", "whole numbers from 1"});
  test::expect_error(Fault::input, {"plan.json", "array"}, [] { parse("[]"); });
  test::expect_error(Fault::input, {"plan.json", "appears twice"}, [] { parse(R"({"a": "colwise", "a": "rowwise"})"); });
}

TEST(PlanJson, StoredBlocksComeFromTheModel) {
  const auto plan = with_stored_blocks(
      parse(R"({"blocks.*.in": {"style": "packed_colwise"}, "blocks.1.out": {"style": "packed_rowwise", "blocks": "stored"}})"),
      stored());
  EXPECT_EQ(plan.at("blocks.*.in"), Sharding(Colwise{{2, 6}}));
  EXPECT_EQ(plan.at("blocks.1.out"), Sharding(Rowwise{{6, 2}, false}));
  test::expect_error(Fault::input, {"\"blocks.*.in\"", "no blocks of columns are stored with blocks.0.in", "\"rowwise\""},
                     [] { with_stored_blocks(parse(R"({"blocks.*.in": {"style": "packed_rowwise"}})"), stored()); });
  EXPECT_EQ(with_stored_blocks(parse(R"({"blocks.*.inn": {"style": "packed_rowwise"}})"), stored()).size(),
            1u);  // the check's to tell
}

TEST(PlanJson, WritesWhatItReads) {
  const std::map<std::string, Sharding> plan{
      {"a", Colwise{}},   {"b", Rowwise{}}, {"c", Rowwise{{}, true}}, {"d", Colwise{{1, 1}}}, {"e", Rowwise{{1, 4}, false}},
      {"f", Replicated{}}};
  EXPECT_EQ(with_stored_blocks(parse(plan_json(plan).dump()), stored()), plan);
  EXPECT_EQ(with_stored_blocks(parse(plan_text(plan)), stored()), plan);
  EXPECT_EQ(plan_text({{"a", Colwise{}}, {"b", Rowwise{{2, 8}, false}}}),
            "{\n  \"a\": \"colwise\",\n  \"b\": {\"style\":\"packed_rowwise\",\"blocks\":[1,4]}\n}\n");
  EXPECT_EQ(style_json(Rowwise{{3072, 12288}, false}).dump(), R"({"style":"packed_rowwise","blocks":[1,4]})");
  EXPECT_EQ(lowest_terms({6144, 6144, 6144, 18432, 18432}), (std::vector<int64_t>{1, 1, 1, 3, 3}));
  EXPECT_EQ(lowest_terms({5, 7}), (std::vector<int64_t>{5, 7}));
}

}  // namespace
}  // namespace shardproof
