#include "harness/meshes.hpp"

#include "strategies/registry.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(Candidates, OneAxisUsesAllRanks) {
  const auto all = parse_candidates("all", 6, std::nullopt);
  EXPECT_EQ(all.size(), all_strategies().size());
  for (const Candidate& candidate : all) EXPECT_EQ(candidate.mesh.world_size(), candidate.strategy->axes().empty() ? 1 : 6);
  EXPECT_EQ(all[0].mesh.text(), "single");
  EXPECT_EQ(all[1].mesh.text(), "dp=6");
  EXPECT_EQ(parse_candidates("ring[ring=4],tp", 4, std::nullopt)[0].mesh.text(), "ring=4");
  EXPECT_EQ(parse_candidates("ring,tp", 4, "ring=4")[1].mesh.text(), "tp=4");
}

TEST(Candidates, RefuseMeshesThatDoNotFit) {
  test::expect_error(Fault::input, {"2 ranks", "--ranks is 4"}, [] { parse_candidates("ring[ring=2]", 4, std::nullopt); });
  test::expect_error(Fault::input, {"ulysses", "axes"}, [] { parse_candidates("ulysses[ring=4]", 4, std::nullopt); });
  test::expect_error(Fault::input, {"bracket"}, [] { parse_candidates("ring[ring=4", 4, std::nullopt); });
  test::expect_error(Fault::input, {"tp=2,ring=2", "none"}, [] { parse_candidates("ring", 4, "tp=2,ring=2"); });
  test::expect_error(Fault::input, {"--ranks is 3"}, [] { parse_candidates("ring", 3, "ring=4"); });
  test::expect_error(Fault::input, {"--ranks 0"}, [] { parse_candidates("all", 0, std::nullopt); });
  test::expect_error(Fault::input, {"\"rings\""}, [] { parse_candidates("rings", 4, std::nullopt); });
}

}  // namespace
}  // namespace shardproof
