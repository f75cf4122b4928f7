#include "core/plan_match.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// D-13's model, transformers#42129: twelve blocks, and beside them a Sequential, a norm and a last Linear.
ModuleTree twelve_blocks() {
  std::map<std::string, std::vector<int64_t>> parameters{
      {"proj_out.weight", {4, 8}}, {"proj_out.bias", {4}}, {"norm.weight", {8}}};
  for (int i = 0; i < 12; ++i) {
    const auto block = fmt::format("blocks.{}.", i);
    for (const char* linear : {"ff.w1", "ff.w2", "attn.to_out.0", "net.0.proj", "mod.1"})
      parameters[block + linear + ".weight"] = {8, 8};
    parameters[block + "attn.norm_q.weight"] = {4};
  }
  std::set<std::string> sequentials;
  for (int i = 0; i < 12; ++i) sequentials.insert(fmt::format("blocks.{}.mod", i));
  return module_tree(parameters, sequentials);
}

TEST(PlanKeys, AStarMatchesEveryBlockOnce) {
  for (const char* rest : {"ff.w1", "ff.w2", "attn.to_out.0", "net.0.proj", "mod.1"}) {
    const KeyMatch match = match_key(std::string("blocks.*.") + rest, twelve_blocks());
    ASSERT_FALSE(match.fault) << *match.fault;
    EXPECT_EQ(match.modules.size(), 12u);
    EXPECT_EQ(match.modules[2], std::string("blocks.2.") + rest);  // in the order of the list, not of the alphabet
    EXPECT_EQ(match.modules[11], std::string("blocks.11.") + rest);
  }
}

TEST(PlanKeys, WithoutAStarTheNameIsLookedUpOnTheModel) {
  EXPECT_EQ(match_key("blocks.1.ff.w1", twelve_blocks()).modules,
            std::vector<std::string>{"blocks.1.ff.w1"});  // and not blocks.10, blocks.11
  EXPECT_EQ(match_key("proj_out", twelve_blocks()).modules, std::vector<std::string>{"proj_out"});
  EXPECT_EQ(match_key("blocks.0.net.*.proj", twelve_blocks()).modules, std::vector<std::string>{"blocks.0.net.0.proj"});
}

struct Wrong {
  const char *key, *why, *meant;
};

class WrongKey : public testing::TestWithParam<Wrong> {};

TEST_P(WrongKey, IsAFaultThatSaysWhyAndWhatWasMeant) {
  const KeyMatch match = match_key(GetParam().key, twelve_blocks());
  ASSERT_TRUE(match.fault);
  EXPECT_TRUE(match.modules.empty());
  EXPECT_NE(match.fault->find(GetParam().why), std::string::npos) << *match.fault;
  EXPECT_EQ(match.near_key.value_or(""), GetParam().meant);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, WrongKey,
    testing::Values(Wrong{"blocks.*.ff.w3", "no module blocks.0.ff.w3", "blocks.*.ff.w1"},
                    Wrong{"blocks.*.attn.to_out.*", "2 * in it; at most one", "blocks.*.attn.to_out.0"},
                    Wrong{"model.blocks.*.ff.w1", "no module model.blocks", "blocks.*.ff.w1"},
                    Wrong{"blocks.0.ff.*.w1", "* over blocks.0.ff, which is not a ModuleList", "blocks.*.ff.w1"},
                    Wrong{"blocks.0.mod.*", "* over blocks.0.mod, which is not a ModuleList", "blocks.*.mod.1"},
                    Wrong{"blocks.1*.ff.w1", "not a whole component", "blocks.*.ff.w1"},
                    Wrong{"*.ff.w1", "not a whole component", ""}, Wrong{"blocks.*.ff.w*", "2 * in it", "blocks.*.ff.w1"},
                    Wrong{"blocks.*ff.w1", "not a whole component", "blocks.*.ff.w1"},
                    Wrong{"blocks.*", "blocks.0, a module without a weight", ""},
                    Wrong{"blocks.*.attn", "blocks.0.attn, a module without a weight", ""},
                    Wrong{"blocks.*.attn.norm_q", "whose weight is a vector: a norm, not a Linear", ""},
                    Wrong{"blocks.12.ff.w1", "no module blocks.12.ff.w1", "blocks.*.ff.w1"},
                    Wrong{"norm", "a norm, not a Linear", ""}, Wrong{"proj_ou", "no module proj_ou", "proj_out"},
                    Wrong{"", "no module", ""}));

TEST(PlanKeys, EveryElementOfTheListMustHaveTheModule) {  // diffusers would raise a bare AttributeError
  const ModuleTree tree = module_tree({{"net.0.proj.weight", {4, 4}}, {"net.2.weight", {4, 4}}});
  EXPECT_NE(match_key("net.*.proj", tree).fault.value_or("").find("no module net.2.proj"), std::string::npos);
}

TEST(PlanKeys, AModulesKeyHasItsBlocksNumberReplaced) {
  EXPECT_EQ(key_of("blocks.7.attn.to_out.0", twelve_blocks()), "blocks.*.attn.to_out.0");
  EXPECT_EQ(key_of("proj_out", twelve_blocks()), "proj_out");
}

}  // namespace
}  // namespace shardproof
