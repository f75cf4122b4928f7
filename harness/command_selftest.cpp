#include "core/error.hpp"
#include "harness/command.hpp"
#include "harness/progress.hpp"
#include "harness/selftest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

namespace shardproof {
namespace {

struct Options {
  std::string model = "flux1-tiny", strategies = "data_parallel,ulysses,ring,tp", attention = "kokkos_flash";
  int ranks = 4;
  int64_t seeds = 0;
  uint64_t seed = 0;
};

/// Gates must not fail right code either.
int run_false_alarms(const Options& options, Progress& progress) {
  const FalseAlarms result = run_right_code(options.model, options.seeds, options.attention, [&](const std::string& what) { progress(what); });
  progress.clear();
  for (const auto& alarm : result.alarms) fmt::print("FALSE ALARM {}\n", alarm);
  fmt::print("largest figure over its gate, by strategy, dtype and level:\n");
  for (const auto& [what, used] : result.nearest) fmt::print("  {:<36} {:.3f}\n", what, used);
  fmt::print("right code, {} seeds, {} rows: {} false alarms\n", result.seeds, result.rows, result.alarms.size());
  return result.alarms.empty() ? exit_status::passed : exit_status::not_passed;
}

int run_selftest(const Options& options) {
  Progress progress;
  if (options.seeds > 0) return run_false_alarms(options, progress);
  const Subject subject = load_subject(options.model, options.seed);
  const auto verdicts =
      run_mutants(subject, options.strategies, options.ranks, options.attention, options.seed, [&](const std::string& what) { progress(what); });
  progress.clear();
  if (verdicts.empty()) fail_input("selftest", "no mutant breaks {}; accepted: data_parallel, ulysses, ring, tp", options.strategies);
  for (const Verdict& v : verdicts)
    fmt::print("{:<9} {:<14} {:<24} {}\n          {}\n", v.killed ? "killed" : "SURVIVED", v.mutant->strategy, v.mutant->name, v.mutant->fault, v.how);
  const auto survivors = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return !v.killed; });
  fmt::print("{} mutants on {} ranks: {} killed, {} survived\n", verdicts.size(), options.ranks, verdicts.size() - survivors, survivors);
  return survivors == 0 ? exit_status::passed : exit_status::not_passed;
}

}  // namespace

void add_selftest(CLI::App& app, const Invocation&, Run& run) {
  auto* command = app.add_subcommand("selftest",
                                     "Runs deliberately broken strategies (mutants): every one must be caught, or the gates are blind here.\n"
                                     "Example: shardproof selftest --ranks 4");
  auto options = std::make_shared<Options>();
  command->add_option("--model", options->model, "A diffusers folder or a preset")->capture_default_str();
  command->add_option("--strategies", options->strategies, "Whose mutants to run")->capture_default_str();
  command->add_option("--ranks", options->ranks, "Number of virtual ranks")->capture_default_str();
  command->add_option("--attention", options->attention, "Attention backend")->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of inputs and of a preset's weights")->capture_default_str();
  command->add_option("--seeds", options->seeds, "Instead of mutants, run right code on this many seeds and count false alarms");
  command->callback([options, &run] { run = [options] { return run_selftest(*options); }; });
}

}  // namespace shardproof
