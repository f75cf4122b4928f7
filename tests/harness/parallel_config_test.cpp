#include "harness/parallel_config.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

std::string chosen(const std::string& text, int ranks) {
  const Candidate candidate = parse_parallel_config(parse_json(text, "p.json"), "p.json", ranks);
  return fmt::format("{}[{}]", candidate.strategy->name(), candidate.mesh.text());
}

TEST(ParallelConfig, TakesDiffusersFields) {
  EXPECT_EQ(chosen(R"({"ring_degree": 2})", 2), "ring[ring=2]");
  EXPECT_EQ(chosen(R"({"ring_degree": 4, "convert_to_fp32": false, "rotate_method": "allgather"})", 4), "ring_unconverted[ring=4]");
  EXPECT_EQ(chosen(R"({"ulysses_degree": 3, "ring_degree": null})", 3), "ulysses[ulysses=3]");
  EXPECT_EQ(chosen(R"({"ulysses_degree": 3, "ulysses_anything": true})", 3), "ulysses_anything[ulysses=3]");
  EXPECT_EQ(chosen(R"({"ring_degree": 3, "ring_anything": true})", 3), "ring_anything[ring=3]");
  EXPECT_EQ(chosen(R"({"ring_degree": 2, "ulysses_degree": 4})", 8), "unified[ring=2,ulysses=4]");
  EXPECT_EQ(chosen(R"({"tp_degree": 4})", 4), "tp[tp=4]");
  EXPECT_EQ(chosen(R"({"context_parallel_config": {"ulysses_degree": 2}})", 2), "ulysses[ulysses=2]");
}

TEST(ParallelConfig, LiftsWhatDiffusersRefuses) {
  EXPECT_EQ(chosen(R"({"ring_degree": 2, "ulysses_degree": 2, "ulysses_anything": true})", 4), "unified_anything[ring=2,ulysses=2]");
  EXPECT_EQ(chosen(R"({"context_parallel_config": {"ring_degree": 2}, "tensor_parallel_config": {"tp_degree": 2}})", 4), "tp+ring[tp=2,ring=2]");
  EXPECT_EQ(chosen(R"({"ring_degree": 2, "ulysses_degree": 2, "convert_to_fp32": false})", 4), "ring_unconverted+ulysses[ring=2,ulysses=2]");
}

TEST(ParallelConfig, ReadsDegreesFromAMesh) {
  EXPECT_EQ(chosen(R"({"mesh": {"ring": 1, "ulysses": 4}})", 4), "ulysses[ulysses=4]");
  EXPECT_EQ(chosen(R"({"mesh": {"ring": 2, "ulysses": 2}, "ring_degree": 2})", 4), "unified[ring=2,ulysses=2]");
  EXPECT_EQ(chosen(R"({"tensor_parallel_config": {"mesh": {"tp": 2}}})", 2), "tp[tp=2]");
}

TEST(ParallelConfig, NamesWhatIsWrong) {
  const auto refused = [](const std::string& text, int ranks, const std::vector<std::string>& words) {
    test::expect_error(Fault::input, words, [&] { chosen(text, ranks); });
  };
  refused(R"({"ring_degree": 0})", 2, {"ring_degree", "0"});
  refused(R"({"ulysses_degree": -2})", 2, {"ulysses_degree", "-2"});
  refused(R"({})", 1, {"every degree is 1"});
  refused(R"({"ring_degree": 1, "ulysses_degree": 1})", 1, {"every degree is 1"});
  refused(R"({"ring_degree": 2})", 4, {"ring 2", "--ranks 4"});  // a mesh uses every rank
  refused(R"({"ring_dgree": 2})", 2, {"\"ring_dgree\"", "ring_degree"});
  refused(R"({"ring_degree": 2, "rotate_method": "alltoall"})", 2, {"alltoall", "allgather", "ring_p2p"});
  refused(R"({"ring_degree": 2, "ulysses_anything": true})", 2, {"ulysses_anything", "ulysses_degree above 1"});
  refused(R"({"ulysses_degree": 2, "ring_anything": true})", 2, {"ring_anything", "ring_degree above 1"});
  refused(R"({"mesh": {"ring": 2, "ulysses": 2}, "ring_degree": 4})", 4, {"\"ring_degree\" is 4", "ring is 2"});
  refused(R"({"mesh": {"fsdp": 2}})", 2, {"fsdp", "ulysses"});
  refused(R"({"mesh": [2, 2]})", 4, {"mesh", "degrees by axis"});
  refused(R"({"context_parallel_config": {"tp_degree": 2}})", 2, {"context_parallel_config", "tp_degree"});
  refused(R"([])", 2, {"JSON object"});
}

}  // namespace
}  // namespace shardproof
