#include "core/error.hpp"
#include "harness/command.hpp"
#include "harness/progress.hpp"
#include "harness/selftest.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardproof {
namespace {

struct Options {
  std::string model = "flux1-tiny", strategies = "all", attention = "kokkos_flash";
  int ranks = 4;
  int64_t seeds = 0;
  uint64_t seed = 0;
  bool list = false;
};

/// By the strategies they befall, as docs/numerics.md shows them.
int list_mutants() {
  std::map<std::vector<std::string>, std::vector<std::string>> names;
  for (const Mutation& mutation : all_mutations()) {
    const std::string ranks = mutation.least_ranks > 2 ? fmt::format(" ({} ranks)", mutation.least_ranks) : "";
    names[mutation.strategies].push_back(mutation.name + ranks);
  }
  for (const auto& [strategies, some] : names) fmt::print("* {}: {}\n", fmt::join(strategies, ", "), fmt::join(some, ", "));
  return exit_status::passed;
}

/// Gates must not fail right code either.
int run_false_alarms(const Options& options, Progress& progress) {
  const FalseAlarms result = run_right_code(
      options.model, options.seeds, options.attention, [&](const std::string& what) { progress(what); },
      static_cast<int64_t>(options.seed));
  progress.clear();
  for (const auto& alarm : result.alarms) fmt::print("FALSE ALARM {}\n", alarm);
  fmt::print("largest figure over its gate, by strategy, dtype and level:\n");
  for (const auto& [what, used] : result.nearest) fmt::print("  {:<36} {:.3f}\n", what, used);
  fmt::print("right code, {} seeds, {} rows: {} false alarms{}\n", result.seeds, result.rows, result.alarms.size(),
             result.not_run.empty() ? "" : fmt::format("; {} rows could not run on this model", result.not_run.size()));
  return result.alarms.empty() && result.rows > 0 ? exit_status::passed : exit_status::not_passed;
}

/// One line a strategy: how many died, and the smallest error that one died of.
void print_summary(const std::vector<Verdict>& verdicts) {
  for (size_t begin = 0; begin < verdicts.size();) {
    const Verdict* weakest = nullptr;
    size_t end = begin, killed = 0;
    for (; end < verdicts.size() && verdicts[end].strategy == verdicts[begin].strategy; ++end) {
      killed += verdicts[end].killed;
      if (verdicts[end].figure && (!weakest || *verdicts[end].figure < *weakest->figure)) weakest = &verdicts[end];
    }
    fmt::print("{:<18} {} mutants, {} killed; smallest error {:.1e} ({})\n",
               fmt::format("{}[{}]", verdicts[begin].strategy, verdicts[begin].mesh), end - begin, killed,
               weakest ? *weakest->figure : 0, weakest ? weakest->mutation->name : "none");
    begin = end;
  }
}

int run_selftest(const Options& options) {
  if (options.list) return list_mutants();
  Progress progress;
  if (options.seeds > 0) return run_false_alarms(options, progress);
  const Subject subject = load_subject(options.model, options.seed);
  const MutantRun run = run_mutants(subject, options.strategies, options.ranks, options.attention, options.seed,
                                    [&](const std::string& what) { progress(what); });
  progress.clear();
  if (run.verdicts.empty() && run.not_run.empty())
    fail_input("selftest", "no mutant breaks {}; accepted: all, {}", options.strategies, fmt::join(mutated_strategies(), ", "));
  for (const Verdict& v : run.verdicts) {
    fmt::print("{:<8} {:<16} {:<29} {}\n", v.killed ? "killed" : "SURVIVED", v.strategy, v.mutation->name,
               v.how.substr(0, v.how.find("; plan:")));
    if (!v.killed) fmt::print("         {}\n", v.mutation->fault);
  }
  for (const auto& reason : run.not_run) fmt::print("not run  {}\n", reason);
  print_summary(run.verdicts);
  const auto survivors = std::count_if(run.verdicts.begin(), run.verdicts.end(), [](const Verdict& v) { return !v.killed; });
  fmt::print("{} mutants on {} ranks: {} killed, {} survived\n", run.verdicts.size(), options.ranks,
             run.verdicts.size() - survivors, survivors);
  return survivors == 0 && !run.verdicts.empty() ? exit_status::passed : exit_status::not_passed;
}

}  // namespace

void add_selftest(CLI::App& app, const Invocation&, Run& run) {
  auto* command =
      app.add_subcommand("selftest",
                         "Runs deliberately broken strategies (mutants): every one must be caught, or the gates are blind here.\n"
                         "Example: shardproof selftest --ranks 4");
  auto options = std::make_shared<Options>();
  command->add_option("--model", options->model, "A diffusers folder or a preset")->capture_default_str();
  command->add_option("--strategies", options->strategies, "Whose mutants to run: all, or a list")->capture_default_str();
  command->add_option("--ranks", options->ranks, "Number of virtual ranks")->capture_default_str();
  command->add_option("--attention", options->attention, "Attention backend")->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of inputs and of a preset's weights; with --seeds the first one")
      ->capture_default_str();
  command->add_option("--seeds", options->seeds, "Instead of mutants, run right code on this many seeds and count false alarms");
  command->add_flag("--list", options->list, "Print the mutants by the strategies they break, as docs/numerics.md has them");
  command->callback([options, &run] { run = [options] { return run_selftest(*options); }; });
}

}  // namespace shardproof
