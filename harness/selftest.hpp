#pragma once

#include "harness/mutants/mutants.hpp"
#include "harness/verify.hpp"

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

}  // namespace shardproof
