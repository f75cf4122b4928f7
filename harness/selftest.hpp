#pragma once

#include "harness/mutants/mutants.hpp"
#include "harness/verify.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

/// What became of one mutant.
struct Verdict {
  std::string strategy, mesh;
  const Mutation* mutation;
  bool killed = false;
  std::string how;               ///< the row's status and reason
  std::optional<double> figure;  ///< its largest error; nothing where it could not finish
};

struct MutantRun {
  std::vector<Verdict> verdicts;
  std::vector<std::string> not_run;  ///< strategies that this mesh or model does not allow, with the reason
};

/// Runs every mutant of the named strategies ("all" or a list) on `ranks` virtual ranks in fp64, those that need more ranks
/// left out. The unbroken strategies run first and must pass: Runtime Error otherwise, since a gate that fails right code
/// proves nothing.
MutantRun run_mutants(const Subject& subject, const std::string& strategies, int ranks, const std::string& attention,
                      uint64_t seed, const std::function<void(const std::string&)>& progress);

/// Right code on small cases, one a seed: rows that did not pass, with seed and reason. The list of cases is fixed: every
/// strategy, even and uneven lengths, with and without masks, the three input families, 2, 3, 4, 6 and 8 ranks, in turn.
struct FalseAlarms {
  int64_t seeds = 0, rows = 0;
  std::vector<std::string> alarms;
  std::vector<std::string> not_run;  ///< cases that the model does not allow
  /// Largest precision figure over its gate, by dtype and level, for docs/numerics.md.
  std::map<std::string, double> nearest;
};
FalseAlarms run_right_code(const std::string& model, int64_t seeds, const std::string& attention,
                           const std::function<void(const std::string&)>& progress, int64_t first_seed = 0);

}  // namespace shardproof
