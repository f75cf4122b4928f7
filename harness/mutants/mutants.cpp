#include "harness/mutants/mutants.hpp"

#include <algorithm>

namespace shardproof {

const std::vector<Mutation>& all_mutations() {
  static const std::vector<Mutation> list = [] {
    std::vector<Mutation> all;
    for (const auto& group : {data_parallel_mutants(), chunk_mutants(), attention_mutants(), wire_mutants(), input_mutants(),
                              tp_mutants(), product_mutants()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return list;
}

std::vector<std::string> mutated_strategies() {
  return {"data_parallel", "ulysses",          "ring", "ring_p2p",  "unified", "ulysses_anything",
          "ring_anything", "unified_anything", "tp",   "tp+ulysses"};
}

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> list = [] {
    std::vector<Mutant> all;
    for (const auto& strategy : mutated_strategies())
      for (const Mutation& mutation : all_mutations())
        if (std::count(mutation.strategies.begin(), mutation.strategies.end(), strategy)) all.push_back({strategy, &mutation});
    return all;
  }();
  return list;
}

Shape mutant_shape(std::string_view strategy) {
  // 35 image and 13 text tokens: on 2, 3 and 4 ranks the cut of the sum is not the sum of the cuts.
  return strategy.ends_with("anything") ? Shape{1, 5, 7, 13} : Shape{};
}

}  // namespace shardproof
