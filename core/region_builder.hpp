#pragma once

#include "core/dataflow.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// Writes a Region step by step; every function adds one step and gives the value it makes. `label` is what a message
/// calls the step. Module names are relative to the region.
class RegionBuilder {
 public:
  using Value = flow::Value;

  explicit RegionBuilder(std::string name, int64_t count = 1);

  Value input(const std::string& name, int64_t width);
  Value linear(const Value& x, flow::Linear linear);
  /// Over all features (`module` empty: no weight), or over each head's.
  Value norm(const Value& x, const std::string& module, int64_t width);
  std::vector<Value> split(const Value& x, const std::vector<int64_t>& sizes, const std::string& label);
  Value concat(const std::vector<Value>& parts, const std::string& label);
  Value join_tokens(const std::vector<Value>& parts, const std::string& label);
  Value slice_tokens(const Value& x, const std::string& label);
  Value heads(const Value& x, int64_t head_dim);
  Value merge_heads(const Value& x);
  Value unary(const Value& x, const std::string& name);
  Value linear_unary(const Value& x, const std::string& name);
  Value add(const Value& a, const Value& b, const std::string& label);
  Value multiply(const Value& a, const Value& b, const std::string& label);
  Value attention(const Value& q, const Value& k, const Value& v, const std::string& module);
  Value contract(const Value& a, const Value& b, const std::string& label);
  void output(const Value& x, const std::string& name);

  /// x · (1 + scale) + shift; `of` names what is modulated: "the image stream".
  Value modulate(const Value& x, const Value& scale, const Value& shift, const std::string& of);
  /// x + gate · update.
  Value gated_residual(const Value& x, const Value& gate, const Value& update, const std::string& of);

  /// The region; input Error where the steps do not fit (see feature_widths).
  Region build();

 private:
  Value step(flow::Kind kind, std::vector<Value> in, const std::string& label);
  Region region_;
  int64_t values_ = 0;
};

/// A two-layer embedder with SiLU between, as diffusers' TimestepEmbedding: [.., in] → [.., out].
flow::Value embed(RegionBuilder& region, const flow::Value& x, const std::string& module, int64_t in, int64_t out,
                  bool bias = true);

}  // namespace shardproof
