#include "harness/meshes.hpp"
#include "harness/mutants/broken.hpp"
#include "harness/selftest.hpp"
#include "strategies/registry.hpp"
#include "tests/support/paths.hpp"

#include "tests/support/expect_error.hpp"

#include <map>
#include <set>

namespace shardproof {
namespace {

const auto silent = [](const std::string&) {};

/// On 2 and 4 ranks the committed checkpoint with 4 heads, on 3 a preset with 24.
class MutantsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, MutantsOf, testing::Values(2, 3, 4), testing::PrintToStringParamName());

TEST_P(MutantsOf, EveryStrategyDie) {
  const Subject subject = load_subject(GetParam() == 3 ? "flux1-tiny" : test::oracle_checkpoint().string(), 0);
  const MutantRun run = run_mutants(subject, "all", GetParam(), "kokkos_flash", 0, silent);
  std::map<std::string, int> counts;
  for (const Verdict& v : run.verdicts) {
    ++counts[v.strategy];
    EXPECT_TRUE(v.killed) << v.strategy << "/" << v.mutation->name << " on " << v.mesh << ": " << v.how;
  }
  for (const auto& strategy : mutated_strategies()) {
    const bool two_degrees = strategy.starts_with("unified");
    const int expected = two_degrees && GetParam() < 4 ? 0 : strategy == "data_parallel" ? 5 : 20;
    EXPECT_GE(counts[strategy], expected) << strategy;
  }
  EXPECT_EQ(run.not_run.size(), GetParam() < 4 ? 4u : 0u);  // both unified ones, with and without masks
}

TEST(Mutants, AreManyAndNamedOnce) {
  std::set<std::string> names;
  std::map<std::string, int> counts;
  for (const Mutation& mutation : all_mutations()) EXPECT_TRUE(names.insert(mutation.name).second) << mutation.name;
  for (const Mutant& mutant : all_mutants()) ++counts[mutant.strategy];
  for (const auto* strategy : {"ulysses", "ring", "ring_p2p", "unified", "ulysses_anything", "ring_anything", "unified_anything"})
    EXPECT_GE(counts[strategy], 20) << strategy;
}

TEST(Mutants, TheFirstModuleThatIsWrongIsNamed) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  std::map<std::string, std::string> how;
  for (const Verdict& v : run_mutants(subject, "tp,ring", 2, "kokkos_flash", 0, silent).verdicts) how[v.mutation->name] = v.how;
  EXPECT_NE(how["bias_added_n_times"].find("transformer_blocks.0.attn.to_out.0 (out)"), std::string::npos)
      << how["bias_added_n_times"];
  EXPECT_NE(how["column_bias_of_rank_0"].find("on rank 1"), std::string::npos) << how["column_bias_of_rank_0"];
  EXPECT_NE(how["packed_cut_contiguously"].find("single_transformer_blocks.0 (image)"), std::string::npos)
      << how["packed_cut_contiguously"];
  EXPECT_NE(how["plain_average"].find("transformer_blocks.0.attn (out)"), std::string::npos) << how["plain_average"];
}

TEST(RightCode, RaisesNoAlarm) {
  const FalseAlarms result = run_right_code("flux1-tiny", 50, "kokkos_flash", silent);
  EXPECT_EQ(result.seeds, 50);
  EXPECT_GE(result.rows, 350);  // about two strategies a seed, in four dtypes
  EXPECT_TRUE(result.not_run.empty()) << result.not_run.front();
  for (const auto& alarm : result.alarms) ADD_FAILURE() << alarm;
}

/// Outside selftest a rank that starts from other values is refused by hash, by name, before anything runs.
TEST(Mutants, RanksThatStartFromOtherValuesAreRefused) {
  const Subject subject = load_subject(test::oracle_checkpoint().string(), 0);
  const NamedTensors inputs = to_dtype(subject.inputs({}, "randn", 0, 4), at::kFloat);
  const Candidate ring = parse_candidates("ring", 3, std::nullopt).front();
  FaultInjection latents;
  latents.check_start = true;
  latents.inputs = [](NamedTensors& mine, int rank, int, int64_t) {
    if (rank == 2) mine.at("hidden_states") = mine.at("hidden_states") + 1e-7;
  };
  test::expect_error(Fault::runtime, {"input hidden_states on rank 2"}, [&] {
    run_end_to_end(subject, {ring.strategy, ring.mesh, at::kFloat, "kokkos_flash", &latents}, inputs, 1);
  });
  FaultInjection weights = broken_weights([](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
    const Tensor value = source.read(name, slice);
    return rank == 1 && name == "x_embedder.bias" ? value + 1 : value;
  });
  weights.check_start = true;
  test::expect_error(Fault::runtime, {"replicated weight x_embedder.bias on rank 1"}, [&] {
    run_end_to_end(subject, {ring.strategy, ring.mesh, at::kFloat, "kokkos_flash", &weights}, inputs, 1);
  });
}

}  // namespace
}  // namespace shardproof
