#pragma once

#include "harness/rank_run.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// A strategy broken on purpose. `verify` with its fault must end in a mismatch or an error, or the gates are blind.
struct Mutant {
  std::string strategy;  ///< which one it breaks
  std::string name;      ///< "last_chunk_dropped"
  std::string fault;     ///< one line: what is wrong
  FaultInjection injection;
};

/// All mutants, in the order of tables; the strategies they wrap live as long as the program.
const std::vector<Mutant>& all_mutants();

// By what they break; see the files of the same names.
std::vector<Mutant> ring_mutants();
std::vector<Mutant> ulysses_mutants();
std::vector<Mutant> tp_mutants();
std::vector<Mutant> data_parallel_mutants();

}  // namespace shardproof
