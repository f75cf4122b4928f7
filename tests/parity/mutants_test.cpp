#include "harness/meshes.hpp"
#include "harness/selftest.hpp"
#include "tests/support/paths.hpp"

#include "tests/support/expect_error.hpp"

#include <set>

namespace shardproof {
namespace {

TEST(Mutants, EveryOneDies) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  for (const int ranks : {2, 4}) {
    const auto verdicts = run_mutants(subject, "data_parallel,ulysses,ring,tp", ranks, "kokkos_flash", 0, [](const std::string&) {});
    EXPECT_EQ(verdicts.size(), all_mutants().size());
    for (const Verdict& v : verdicts) {
      // With two ranks the own chunk in place of the other's is local attention, and still dies.
      EXPECT_TRUE(v.killed) << v.mutant->strategy << "/" << v.mutant->name << " on " << v.mesh << ": " << v.how;
    }
  }
}

TEST(Mutants, AreManyAndNamedOnce) {
  std::set<std::string> names;
  for (const Mutant& mutant : all_mutants()) EXPECT_TRUE(names.insert(mutant.strategy + "/" + mutant.name).second) << mutant.name;
  EXPECT_GE(names.size(), 20u);
}

TEST(Mutants, TheFirstModuleThatIsWrongIsNamed) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  for (const Verdict& v : run_mutants(subject, "tp", 2, "kokkos_flash", 0, [](const std::string&) {})) {
    if (v.mutant->name == "bias_added_n_times") EXPECT_NE(v.how.find("transformer_blocks.0.attn.to_out.0 (out)"), std::string::npos) << v.how;
    if (v.mutant->name == "column_bias_of_rank_0") EXPECT_NE(v.how.find("on rank 1"), std::string::npos) << v.how;
    if (v.mutant->name == "packed_cut_contiguously") EXPECT_NE(v.how.find("single_transformer_blocks.0 (image)"), std::string::npos) << v.how;
  }
}

}  // namespace
}  // namespace shardproof
