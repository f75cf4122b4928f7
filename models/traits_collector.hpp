#pragma once

#include "models/model_traits.hpp"

#include <cstdint>
#include <string>

namespace shardproof {

/// Fills in a model's traits module by module, Linears and their parameters together.
class TraitsCollector {
 public:
  explicit TraitsCollector(ModelTraits& traits) : traits_(traits) {}

  void linear(const std::string& name, int64_t out, int64_t in, Tokens tokens, bool bias = true) {
    traits_.linears.push_back({name, out, in, tokens, bias});
    traits_.parameters[name + ".weight"] = {out, in};
    if (bias) traits_.parameters[name + ".bias"] = {out};
  }

  /// A norm's `name`.weight.
  void norm(const std::string& name, int64_t size) { traits_.parameters[name + ".weight"] = {size}; }

  /// An attention's Linears and norms for both streams, under `block`.attn.
  void joint_attention(const std::string& block, int64_t hidden, int64_t head_dim, bool bias = true) {
    const std::string attn = block + ".attn.";
    for (const char* name : {"to_q", "to_k", "to_v", "to_out.0"}) linear(attn + name, hidden, hidden, Tokens::image, bias);
    for (const char* name : {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"})
      linear(attn + name, hidden, hidden, Tokens::text, bias);
    for (const char* name : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"}) norm(attn + name, head_dim);
  }

  /// `name`.linear_1 and .linear_2 of a conditioning vector.
  void embedder(const std::string& name, int64_t hidden, int64_t in, bool bias = true) {
    linear(name + ".linear_1", hidden, in, Tokens::none, bias);
    linear(name + ".linear_2", hidden, hidden, Tokens::none, bias);
  }

 private:
  ModelTraits& traits_;
};

/// The `_tp_plan` entries of a double-stream block's attention, the same in every family.
inline void add_joint_attention(std::map<std::string, Sharding>& plan) {
  const std::string attn = "transformer_blocks.*.attn.";
  for (const char* name : {"to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj"}) plan[attn + name] = Colwise{};
  for (const char* name : {"to_out.0", "to_add_out"}) plan[attn + name] = Rowwise{};
}

/// What the context-parallel plans of all families split and gather, and the inputs that carry the batch.
inline void add_token_inputs(ModelTraits& traits) {
  traits.cp_inputs = {{"hidden_states", {1, 3}},
                      {"encoder_hidden_states", {1, 3}},
                      {"img_ids", {0, 2}},
                      {"txt_ids", {0, 2}},
                      {"encoder_hidden_states_mask", {1, 2}}};
  traits.cp_outputs = {{"proj_out", {1, 3}}};
  traits.batched_inputs = {
      {"hidden_states", 3}, {"encoder_hidden_states", 3}, {"timestep", 1}, {"encoder_hidden_states_mask", 2}};
  traits.optional_inputs = {"encoder_hidden_states_mask"};
}

}  // namespace shardproof
