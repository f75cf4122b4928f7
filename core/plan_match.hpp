#pragma once

#include "core/dataflow.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardproof {

/// A model's modules, as far as its parameters' names show them: what the keys of a plan are looked up on.
struct ModuleTree {
  std::set<std::string> modules;                          ///< every dotted name on the way to a parameter
  std::set<std::string> weighted;                         ///< those that have a weight
  std::set<std::string> linears;                          ///< those whose weight is a matrix
  std::map<std::string, std::vector<std::string>> lists;  ///< ModuleLists with the names of their elements
};

/// A container whose children are all numbers is a ModuleList, unless it is one of `sequentials`.
ModuleTree module_tree(const std::map<std::string, std::vector<int64_t>>& parameters,
                       const std::set<std::string>& sequentials = {});
ModuleTree module_tree(const Dataflow& dataflow);

/// What one key of a plan names.
struct KeyMatch {
  std::vector<std::string> modules;     ///< Linears, in the order of the list; empty when there is a fault
  std::optional<std::string> fault;     ///< why the key is wrong
  std::optional<std::string> near_key;  ///< the key that was probably meant; none when the entry should just go
};

/// diffusers' rules (hooks/tensor_parallel.py), made strict: at most one `*`, which stands for a whole name component; what
/// is before it must be a ModuleList, and every element must have what is after it; without `*` the name is looked up on
/// the model itself. What is found must be a Linear.
KeyMatch match_key(const std::string& key, const ModuleTree& tree);

/// The key for a module and its like in the other blocks: its first number that is an element of a ModuleList becomes `*`.
std::string key_of(const std::string& module, const ModuleTree& tree);

}  // namespace shardproof
