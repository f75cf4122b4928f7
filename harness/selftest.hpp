#pragma once

#include "harness/mutants/mutants.hpp"
#include "harness/verify.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shardproof {

/// What became of one mutant.
struct Verdict {
  const Mutant* mutant;
  std::string mesh;
  bool killed = false;
  std::string how;  ///< the row's status and reason; or why it could not run
};

/// Runs every mutant of the named strategies ("all" or a list) on `ranks` virtual ranks in fp64. The unbroken strategies
/// run first and must pass: Runtime Error otherwise, since a gate that fails right code proves nothing.
std::vector<Verdict> run_mutants(const Subject& subject, const std::string& strategies, int ranks, const std::string& attention, uint64_t seed,
                                 const std::function<void(const std::string&)>& progress);

/// Right code on small cases of one seed after the other: rows that did not pass, with seed and reason. Every strategy, every
/// dtype, the three input families in turn, on 2, 3 and 4 ranks in turn.
struct FalseAlarms {
  int64_t seeds = 0, rows = 0;
  std::vector<std::string> alarms;
  /// Largest precision figure over its gate, by dtype and level, for docs/numerics.md.
  std::map<std::string, double> nearest;
};
FalseAlarms run_right_code(const std::string& model, int64_t seeds, const std::string& attention,
                           const std::function<void(const std::string&)>& progress);

}  // namespace shardproof
