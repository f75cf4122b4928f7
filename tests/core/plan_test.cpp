#include "core/plan.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Plan, StarStandsForOneNumber) {  // transformers#42129: blocks.1 must not catch blocks.10
  EXPECT_TRUE(glob_matches("blocks.*.ff.w1", "blocks.0.ff.w1"));
  EXPECT_TRUE(glob_matches("blocks.*.ff.w1", "blocks.11.ff.w1"));
  EXPECT_FALSE(glob_matches("blocks.*.ff.w1", "blocks.0.ff.w2"));
  EXPECT_FALSE(glob_matches("blocks.*.ff.w1", "blocks.0.1.ff.w1"));
  EXPECT_FALSE(glob_matches("blocks.*.ff.w1", "blocks..ff.w1"));
  EXPECT_FALSE(glob_matches("blocks.*.ff.w1", "model.blocks.0.ff.w1"));
  EXPECT_FALSE(glob_matches("blocks.1", "blocks.10"));
  EXPECT_TRUE(glob_matches("proj_out", "proj_out"));
}

TEST(Plan, EntryOfAModule) {
  Plan plan;
  plan.weights["blocks.*.to_q"] = Colwise{};
  EXPECT_EQ(plan_entry(plan, "blocks.3.to_q").glob, "blocks.*.to_q");
  EXPECT_EQ(plan_entry(plan, "blocks.3.to_q").sharding, Sharding(Colwise{}));
  EXPECT_EQ(plan_entry(plan, "blocks.3.to_k").sharding, Sharding(Replicated{}));
}

TEST(Plan, ShardingsHaveDiffusersNames) {
  EXPECT_EQ(sharding_text(Replicated{}), "replicated");
  EXPECT_EQ(sharding_text(Colwise{}), "colwise");
  EXPECT_EQ(sharding_text(Rowwise{}), "rowwise");
  EXPECT_EQ(sharding_text(Rowwise{{}, true}), "rowwise_split_input");
  EXPECT_EQ(sharding_text(Colwise{{1, 1, 1, 3, 3}}), "packed_colwise[1, 1, 1, 3, 3]");
  EXPECT_EQ(sharding_text(Rowwise{{1, 3}, false}), "packed_rowwise[1, 3]");
}

TEST(Plan, IsComparable) {
  Plan a, b;
  a.weights["x"] = Colwise{};
  b.weights["x"] = Rowwise{};
  EXPECT_NE(a, b);
  b.weights["x"] = Colwise{};
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace shardproof
