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

TEST(Cli, AMaskThatTheModelDoesNotTakeIsFailed) {
  const Outcome outcome = run(quick + "--strategies single --mask padded");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("[flux1] the model takes no key-padding mask"), std::string::npos) << outcome.out;
}

TEST(Cli, BadUsageNamesTheThingAndWhatIsAccepted) {
  expect_refused("verify", {"--model"});
  expect_refused("verify --model nosuch", {"\"nosuch\"", "flux1-tiny"});
  expect_refused(oracle + "--strategies rings", {"\"rings\"", "ulysses"});
  expect_refused(oracle + "--dtype fp8", {"\"fp8\"", "bf16"});
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
  EXPECT_EQ(run(quick + "--strategies ring --mask padded --dry-run").out.find("would run"), std::string::npos);  // as the run itself
}

TEST(Cli, SelftestKillsEveryMutant) {
  const Outcome outcome = run("selftest --model tests/data/flux1-oracle --ranks 4");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find(" killed, 0 survived"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("SURVIVED"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
