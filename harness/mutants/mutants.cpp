#include "harness/mutants/mutants.hpp"

namespace shardproof {

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> list = [] {
    std::vector<Mutant> all;
    for (const auto& group : {data_parallel_mutants(), ulysses_mutants(), ring_mutants(), tp_mutants()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return list;
}

}  // namespace shardproof
