#pragma once

#include "core/plan.hpp"
#include "models/layout.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace shardproof {

/// One Linear of a model: enough to shard it, to count its bytes and what its all-reduce moves.
struct LinearTraits {
  std::string name;
  int64_t out_features, in_features;
  Tokens tokens;                    ///< what its input's dim 1 holds (`none` for [B, C] conditioning)
  bool bias = true;
  bool operator==(const LinearTraits&) const = default;
};

/// What strategies need to know of a model, as plain data. Heads and plans come from the model's own description,
/// shapes from its config; no weights are read.
struct ModelTraits {
  std::string family;                                    ///< "flux1"
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<std::string> attentions;                   ///< one per attention call of a forward, by module name
  std::vector<LinearTraits> linears;
  std::map<std::string, std::vector<int64_t>> parameters;  ///< every parameter's shape by diffusers' name
  std::map<std::string, Sharding> tp_plan;               ///< the shipped `_tp_plan`
  std::map<std::string, Split> cp_inputs, cp_outputs;    ///< the shipped `_cp_plan`: the model's inputs and outputs
  std::map<std::string, Split> cp_module_inputs;         ///< its splits inside the model: "transformer_blocks.0.image"
  std::map<std::string, int64_t> batched_inputs;         ///< inputs whose dim 0 is the batch, with their number of dims
  std::set<std::string> optional_inputs;                 ///< of all the inputs named here, those that may be absent
  int64_t out_channels = 0;                              ///< features of the gathered output
};

/// Number of scalars in all parameters.
int64_t parameter_count(const ModelTraits& traits);

}  // namespace shardproof
