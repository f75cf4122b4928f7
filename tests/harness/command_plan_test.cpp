#include "core/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temp_dir.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
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
  const std::string command = "cd '" + test::source_dir().string() + "' && '" + binary + "' plan " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A plan file with one entry changed from the shipped plan.
class PlanCommand : public testing::Test {
 protected:
  test::TempDir folder_;
  std::string changed(const std::string& model, const std::string& key, const Json& style) {
    Json plan = parse_json(run("show --model " + model).out, "plan show");
    plan[key] = style;
    const auto file = folder_.path() / "plan.json";
    std::ofstream(file) << plan.dump();
    return file.string();
  }
};

constexpr const char* presets[] = {"flux1-tiny", "flux2-dev", "qwen-image"};

TEST_F(PlanCommand, WhatShowPrintsCheckTakes) {
  for (const char* preset : presets) {
    const Outcome shown = run(std::string("show --model ") + preset);
    ASSERT_EQ(shown.status, 0) << shown.out;
    const auto file = folder_.path() / "plan.json";
    std::ofstream(file) << shown.out;
    const Outcome checked = run(std::string("check --tp 1,2,3,4,6,8 --model ") + preset + " --plan " + file.string());
    EXPECT_EQ(checked.status, 0) << preset << "\n" << checked.out;
    EXPECT_NE(checked.out.find("0 faults"), std::string::npos) << checked.out;
  }
}

TEST_F(PlanCommand, ShippedPlansAreRight) {
  EXPECT_EQ(run("check --tp 1,2,3,4,6,8 --model flux1-dev").status, 0);
  const Outcome outcome = run("check --model tests/data/flux1-oracle --tp 2,4");  // of a folder only config.json is read
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("flux1-oracle"), std::string::npos) << outcome.out;
}

TEST_F(PlanCommand, AFaultIsExitOneAndNamesTheEntry) {
  const auto plan = changed("flux2-dev", "transformer_blocks.*.ff.linear_in", "colwise");
  const Outcome outcome = run("check --model flux2-dev --plan " + plan);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("[plan] \"transformer_blocks.*.ff.linear_in\": \"colwise\""), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("right: {\"transformer_blocks.*.ff.linear_in\":{\"style\":\"packed_colwise\",\"blocks\":[1,1]}}"),
            std::string::npos);
}

TEST_F(PlanCommand, JsonHoldsEverything) {
  const Json good = parse_json(run("check --model flux2-dev --tp 2,8 --json").out, "stdout");
  EXPECT_EQ(good.at("schema"), "shardproof.plan_check/1");
  EXPECT_EQ(good.at("status"), "pass");
  EXPECT_EQ(good.at("parameters"), 32'223'281'152);
  EXPECT_EQ(good.at("per_rank").at(1).at("parameters"), 4'742'201'344);
  EXPECT_EQ(good.at("all_reduces"), 80);
  EXPECT_TRUE(good.at("repaired").is_null());

  const auto plan = changed("flux1-tiny", "transformer_blocks.*.attn.to_kk", "colwise");
  const Json bad = parse_json(run("check --model flux1-tiny --json --plan " + plan).out, "stdout");
  EXPECT_EQ(bad.at("status"), "mismatch");
  EXPECT_EQ(bad.at("faults").at(0).at("rule"), "key");
  EXPECT_EQ(bad.at("faults").at(0).at("key"), "transformer_blocks.*.attn.to_kk");
  EXPECT_EQ(bad.at("repaired"), parse_json(run("show --model flux1-tiny").out, "stdout"));
}

TEST_F(PlanCommand, JUnitHasACaseForEachEntryAndDegree) {
  const auto plan = changed("flux1-tiny", "transformer_blocks.*.attn.norm_q", "colwise"),
             junit = (folder_.path() / "junit.xml").string();
  EXPECT_EQ(run("check --model flux1-tiny --tp 2,5 --plan " + plan + " --junit " + junit).status, 1);
  const std::string text = text_of(junit);
  EXPECT_NE(text.find("tests=\"20\" failures=\"2\""), std::string::npos) << text;  // 17 + 1 entries, 2 degrees
  EXPECT_NE(text.find("name=\"heads at tp 5\"><failure message=\"tp 5: 24 heads of "), std::string::npos) << text;
  EXPECT_NE(text.find("norm, not a Linear"), std::string::npos) << text;
  EXPECT_NE(text.find("name=\"heads at tp 2\"/>"), std::string::npos) << text;
}

TEST_F(PlanCommand, BadUsageIsExitTwoInOneLine) {
  const auto refused = [](const std::string& arguments, const std::vector<std::string>& words) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.out;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
    for (const auto& word : words)
      EXPECT_NE(outcome.out.find(word), std::string::npos) << "no \"" << word << "\" in: " << outcome.out;
  };
  refused("check", {"--model"});
  refused("check --model nosuch", {"\"nosuch\"", "flux1-tiny", "qwen-image"});
  refused("show --model nosuch", {"\"nosuch\"", "flux2-dev"});
  for (const char* tp : {"0", "-1", "2,,4"}) refused(std::string("check --model flux1-tiny --tp=") + tp, {"--tp", "2,4,8"});
  refused("check --model flux1-tiny --plan no/such.json", {"no/such.json"});
  refused("check --model flux1-tiny --junit no/such/junit.xml", {"no/such/junit.xml"});
  refused("check --model flux1-tiny --plan " + changed("flux1-tiny", "proj_out", "rows"),
          {"\"proj_out\"", "\"rows\"", "\"colwise\""});
  refused("check --model flux1-tiny --plan " + changed("flux1-tiny", "proj_out", Json{{"style", "packed_rowwise"}}),
          {"\"proj_out\"", "stored"});
  EXPECT_EQ(run("").status, 2);
}

/// Seconds of processor time; other processes on the machine do not count.
double seconds_of(const rusage& usage) {
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The program in a process of its own, its output thrown away: exit status and what this one process used.
std::pair<int, rusage> measured(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> raw;
    for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    if (std::freopen("/dev/null", "w", stdout)) execv(raw[0], raw.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, usage};
}

TEST_F(PlanCommand, TheLargestModelIsCheckedAtOnce) {  // under 2 s and 200 MB, with a fault to repair
  const std::string plan = changed("flux2-dev", "single_transformer_blocks.*.attn.to_out", "colwise");
  const auto [status, usage] = measured({std::getenv("SHARDPROOF_BINARY"), "plan", "check", "--model", "flux2-dev", "--tp", "2,3,4,6,8", "--plan", plan});
  EXPECT_EQ(status, 1);
  EXPECT_LT(seconds_of(usage), 2.0);
  EXPECT_LT(usage.ru_maxrss, 200 * 1000);  // KiB
}

}  // namespace
}  // namespace shardproof
