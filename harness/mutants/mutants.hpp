#pragma once

#include "harness/rank_run.hpp"

#include <functional>
#include <string>
#include <vector>

namespace shardproof {

/// Where a fault is put in.
struct FaultSite {
  const Strategy& strategy;
  MeshShape mesh;
  Shape shape;
};

/// A fault, declared once for all strategies it can befall.
struct Mutation {
  std::string name;                     ///< "last_chunk_dropped"
  std::string fault;                    ///< one line: what is wrong
  std::vector<std::string> strategies;  ///< whom it befalls
  std::function<FaultInjection(const FaultSite&)> inject;
  bool mask = false;    ///< shows only with a key-padding mask, or with more prompts than one
  int least_ranks = 2;  ///< with fewer it changes nothing
  std::string input{};  ///< the model's input it concerns: models without it are spared
};

/// All of them, in the order of lists.
const std::vector<Mutation>& all_mutations();

/// A strategy broken on purpose. `verify` with its fault must end in a mismatch or an error, or the gates are blind.
struct Mutant {
  std::string strategy;
  const Mutation* mutation;
};

/// All mutants, strategy by strategy. `tp+ulysses` is among the strategies.
const std::vector<Mutant>& all_mutants();

/// Strategies that have mutants, in the order of tables.
std::vector<std::string> mutated_strategies();

/// Lengths that a strategy's mutants run at: uneven where it takes them.
Shape mutant_shape(std::string_view strategy);

// By the seam where they are put in; see the files of the same names.
std::vector<Mutation> chunk_mutants();      ///< the local attention backend
std::vector<Mutation> attention_mutants();  ///< the strategy's whole attention
std::vector<Mutation> wire_mutants();       ///< the communicator
std::vector<Mutation> input_mutants();      ///< what a rank is given, and how the plan cuts it
std::vector<Mutation> tp_mutants();         ///< weights and their plan
std::vector<Mutation> product_mutants();    ///< axes taken for one another
std::vector<Mutation> data_parallel_mutants();

}  // namespace shardproof
