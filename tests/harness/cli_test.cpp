#include "core/json.hpp"
#include "strategies/registry.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors_writer.hpp"
#include "tests/support/temp_dir.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>

namespace shardproof {
namespace {

struct Outcome {
  int status;
  std::string out;  ///< stdout and stderr
};

Outcome run(const std::string& arguments) {
  const char* binary = std::getenv("SHARDPROOF_BINARY");
  EXPECT_NE(binary, nullptr) << "run by ctest, or set SHARDPROOF_BINARY";
  const std::string command = "cd '" + test::source_dir().string() + "' && '" + binary + "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

/// Bad input: exit 2, one line, every word in it, and no output file.
void expect_refused(const std::string& arguments, const std::vector<std::string>& words, int status = 2) {
  const test::TempDir folder;
  const auto file = folder.path() / "rows.jsonl";
  const Outcome outcome = run(arguments + " --out " + file.string());
  EXPECT_EQ(outcome.status, status) << arguments << "\n" << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
  for (const auto& word : words) EXPECT_NE(outcome.out.find(word), std::string::npos) << "no \"" << word << "\" in: " << outcome.out;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << arguments;
}

const std::string oracle = "verify --model tests/data/flux1-oracle ";
const std::string quick = oracle + "--inputs randn --dtype fp64,bf16 ";

TEST(Cli, VerifyPassesAndWritesRecordsAndJUnit) {
  const test::TempDir folder;
  const auto rows = (folder.path() / "rows.jsonl").string(), junit = (folder.path() / "junit.xml").string();
  const Outcome outcome = run(quick + "--strategies all --ranks 4 --require all --out " + rows + " --junit " + junit);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  const auto expected = 2 * all_strategies().size();
  EXPECT_NE(outcome.out.find(fmt::format("{0} rows: {0} pass", expected)), std::string::npos) << outcome.out;
  std::ifstream stream(rows);
  size_t lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) EXPECT_EQ(parse_json(line, rows).at("status"), "pass");
  EXPECT_EQ(lines, expected);
  EXPECT_TRUE(std::filesystem::exists(junit));
}

TEST(Cli, WhatCannotRunIsFailedWithTheReason) {  // 4 heads on 3 ranks
  const Outcome outcome = run(quick + "--strategies tp,ulysses,ring --ranks 3 --expect-failed tp,ulysses");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("[tp] 4 heads are not divisible by tp 3"), std::string::npos);
  EXPECT_EQ(run(quick + "--strategies tp --ranks 3").status, 1);                         // nothing passed
  EXPECT_EQ(run(quick + "--strategies tp,ring --ranks 3 --require tp").status, 1);       // a requirement not met
  EXPECT_EQ(run(quick + "--strategies ring --ranks 2 --expect-failed ring").status, 1);  // it passed
}

/// The guide's second shape in small: 63 image tokens do not divide by 4, and only the "anything" strategies run.
TEST(Cli, UnevenLengthsAndMasks) {
  const Outcome outcome = run(quick + "--strategies ulysses,ring,unified,ulysses_anything,ring_anything,unified_anything --ranks 4 --shape tokens=63 "
                                      "--text 11 --mask padded --require ulysses_anything,ring_anything,unified_anything --expect-failed ulysses,ring,unified");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("[ring] 63 image tokens are not divisible by ring 4"), std::string::npos) << outcome.out;
}

TEST(Cli, AMeshChoosesTheFactorsOfAProduct) {
  const Outcome given = run(quick + "--strategies unified,tp+ring --ranks 8 --mesh ulysses=4,ring=2 --dry-run");
  EXPECT_EQ(given.status, 0) << given.out;
  EXPECT_NE(given.out.find("ring=2,ulysses=4"), std::string::npos) << given.out;
  EXPECT_NE(given.out.find("tp=2,ring=4"), std::string::npos) << given.out;  // 4 heads: of 2 × 4 and 4 × 2 the first
  const Outcome bracket = run(quick + "--strategies unified[ulysses=1,ring=4] --ranks 4 --dry-run");
  EXPECT_NE(bracket.out.find("ulysses 1: every degree must be 2 or more"), std::string::npos) << bracket.out;
}

TEST(Cli, DiffusersParallelConfigAndAttentionNames) {
  const test::TempDir folder;
  const auto file = (folder.path() / "p.json").string();
  std::ofstream(file) << R"({"ring_degree": 2, "ulysses_degree": 2, "ulysses_anything": true})";
  const Outcome outcome = run(quick + "--ranks 4 --attention _native_flash --parallel-config " + file);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("unified_anything"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("attention aten_flash"), std::string::npos) << outcome.out;  // LibTorch rounds its partial results: a wider gate
  expect_refused(quick + "--ranks 2 --parallel-config " + file, {"ring 2 × ulysses 2", "--ranks 2"});
  expect_refused(quick + "--ranks 4 --strategies ring --parallel-config " + file, {"--parallel-config", "--strategies"});
}

/// Each load is a process of its own; sharded reads are the shard to the byte, or the row is an error.
TEST(Cli, LoadBenchShowsBothPathsAndWhatCannotBe) {
  const test::TempDir folder;
  const auto file = (folder.path() / "load.jsonl").string();
  const Outcome outcome = run("load-bench --model flux1-tiny --tp 1,4,5 --repeat 1 --all-ranks --out " + file);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("[tp] 24 heads are not divisible by tp 5"), std::string::npos) << outcome.out;
  std::ifstream stream(file);
  int passed = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = parse_json(line, file);
    if (row.at("status") != "pass") continue;
    ++passed;
    const Json& worst = row.at("worst_rank");
    EXPECT_EQ(worst.at("held"), worst.at("expected"));
    if (row.at("path") == "sharded") {
      EXPECT_EQ(worst.at("bytes_read"), worst.at("expected"));
    }
    EXPECT_EQ(row.at("ranks_loaded").size(), row.at("tp").get<size_t>());
  }
  EXPECT_EQ(passed, 4);
  EXPECT_EQ(run("load-bench --model flux2-dev --tp 1 --path full").status, 1);  // 2 × 64 GB: refused with the numbers
  expect_refused("load-bench --model nosuch", {"\"nosuch\""});
  expect_refused("load-bench --model flux1-tiny --tp 0", {"--tp", "\"0\""});
  expect_refused("load-bench --model flux1-tiny --path half", {"\"half\"", "sharded, full"});
  expect_refused("load-bench --model flux1-tiny --work no/such", {"no/such"});
}

/// Everything but the times.
std::string comparable(const std::string& file) {
  std::string rows;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    Json row = parse_json(line, file);
    for (const char* key : {"times", "started", "command_line", "commit"}) row.erase(key);
    rows += row.dump() + "\n";
  }
  return rows;
}

TEST(Cli, AStrategyChosenAtLoadAndOneAppliedToALoadedModelGiveTheSameRows) {
  const test::TempDir folder;
  const auto at_load = (folder.path() / "a.jsonl").string(), applied = (folder.path() / "b.jsonl").string();
  EXPECT_EQ(run(quick + "--strategies tp,unified,tp+ulysses --ranks 4 --out " + at_load).status, 0);
  EXPECT_EQ(run(quick + "--strategies tp,unified,tp+ulysses --ranks 4 --load full --out " + applied).status, 0);
  EXPECT_EQ(comparable(at_load), comparable(applied));
  EXPECT_GT(comparable(at_load).size(), 1000u);
}

TEST(Cli, BadUsageNamesTheThingAndWhatIsAccepted) {
  expect_refused("verify", {"--model"});
  expect_refused("verify --model nosuch", {"\"nosuch\"", "flux1-tiny"});
  expect_refused(oracle + "--strategies rings", {"\"rings\"", "ulysses"});
  expect_refused(oracle + "--dtype fp8", {"\"fp8\"", "bf16"});
  expect_refused(oracle + "--attention sage_hub", {"\"sage_hub\"", "package", "kokkos_flash"});
  expect_refused(oracle + "--attention aten_cudnn", {"aten_cudnn", "cuda"}, 3);
  expect_refused(oracle + "--load half", {"\"half\"", "sharded, full"});
  expect_refused(oracle + "--strategies unified[ring=3,ulysses=2]", {"6 ranks", "--ranks is 4"});
  expect_refused(oracle + "--attention fast", {"\"fast\"", "kokkos_flash"});
  expect_refused(oracle + "--inputs zeros", {"\"zeros\"", "randn"});
  expect_refused(oracle + "--shape 1000x1000", {"1000x1000", "multiples of 16"});
  expect_refused(oracle + "--shape tokens=0", {"tokens=N"});
  expect_refused(oracle + "--mask half", {"\"half\"", "none, padded"});
  expect_refused(oracle + "--steps 0", {"--steps"});
  expect_refused(oracle + "--text 0", {"--text 0"});
  expect_refused(oracle + "--ranks 0", {"--ranks 0"});
  expect_refused(oracle + "--ranks four", {"--ranks"});
  expect_refused(oracle + "--mesh tp=3", {"tp=3", "product"});
  expect_refused(oracle + "--comm mpi", {"\"mpi\"", "local"});
  expect_refused(oracle + "--comm nccl", {"nccl"}, 3);
  expect_refused(oracle + "--require nosuch", {"\"nosuch\""});
  expect_refused(oracle + "--nosuch", {"--nosuch"});
  EXPECT_EQ(run("").status, 2);
  EXPECT_EQ(run("nosuch").status, 2);
}

TEST(Cli, AModelThatCannotFitIsRefusedBeforeItIsMade) {  // 11.9e9 parameters in fp64 alone are 89 GiB
  expect_refused("verify --model flux1-dev", {"flux1-dev", "GiB", "flux1-small"}, 3);
}

TEST(Cli, TheOutputFolderIsCheckedBeforeAnyWork) {
  const Outcome outcome = run("verify --model nosuch --out no/such/folder/rows.jsonl");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.out.find("no/such/folder"), std::string::npos) << outcome.out;
}

/// A folder with a changed copy of the committed checkpoint.
class BrokenCheckpoint : public testing::Test {
 protected:
  test::TempDir folder_;
  BrokenCheckpoint() {
    for (const auto* name : {"config.json", "diffusion_pytorch_model.safetensors"})
      std::filesystem::copy_file(test::oracle_checkpoint() / name, folder_.path() / name);
  }
  void config(const std::string& key, const Json& value) {
    Json json = read_json(folder_.path() / "config.json");
    json[key] = value;
    std::ofstream(folder_.path() / "config.json") << json.dump();
  }
  void refused(const std::vector<std::string>& words) { expect_refused("verify --model " + folder_.path().string(), words); }
};

TEST_F(BrokenCheckpoint, AConfigThatDoesNotFitTheTensors) {
  config("num_layers", 3);
  refused({"transformer_blocks.2", "missing"});
  config("num_layers", 1);
  refused({"transformer_blocks.1", "not part of the model"});
  config("num_layers", 2);
  config("joint_attention_dim", 33);
  refused({"context_embedder.weight", "[48, 32]", "[48, 33]"});
  config("num_attention_heads", -1);
  refused({"num_attention_heads"});
}

TEST_F(BrokenCheckpoint, MissingOrMalformedFiles) {
  std::filesystem::resize_file(folder_.path() / "diffusion_pytorch_model.safetensors", 100'000);
  refused({"diffusion_pytorch_model.safetensors"});
  std::filesystem::remove(folder_.path() / "diffusion_pytorch_model.safetensors");
  refused({"safetensors"});
  std::ofstream(folder_.path() / "config.json") << "{";
  refused({"config.json", "JSON"});
  std::filesystem::remove(folder_.path() / "config.json");
  refused({"config.json"});
}

TEST(Cli, ListAndHelpTeach) {
  const Outcome list = run("list");
  EXPECT_EQ(list.status, 0);
  for (const auto* word : {"flux1-dev", "ulysses", "kokkos_flash", "local", "bf16", "negative_logits"})
    EXPECT_NE(list.out.find(word), std::string::npos) << word;
  for (const auto* command : {"", "verify ", "selftest ", "list "}) {
    const Outcome help = run(std::string(command) + "--help");
    EXPECT_EQ(help.status, 0);
    EXPECT_NE(help.out.find("shardproof"), std::string::npos);
  }
}

TEST(Cli, DryRunSaysWhatWouldRun) {
  const Outcome outcome = run(quick + "--strategies tp,ring --ranks 3 --dry-run");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("failed: [tp]"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("would run"), std::string::npos);
  EXPECT_NE(run(quick + "--strategies ring --mask padded --dry-run").out.find("would run"), std::string::npos);  // as the run itself
  EXPECT_EQ(run(quick + "--strategies ring --shape tokens=49 --dry-run").out.find("would run"), std::string::npos);
}

TEST(Cli, SelftestKillsEveryMutant) {
  const Outcome outcome = run("selftest --model tests/data/flux1-oracle --ranks 4");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find(" killed, 0 survived"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("SURVIVED"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
