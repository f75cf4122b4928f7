#pragma once

#include "models/sharded_linear.hpp"

#include <string>

namespace shardproof {

/// Where a model gets its modules from while it is built. The session implements it and alone knows the plan:
/// a model says which Linear it wants and never how it is sharded.
class ModuleSource {
 public:
  virtual ~ModuleSource() = default;
  /// The Linear `name` ("….weight" [out, in] and, with `bias`, "….bias" [out]) as this rank holds it.
  virtual ShardedLinear linear(const std::string& name, int64_t out_features, int64_t in_features, bool bias = true) = 0;
  /// A parameter that every rank holds whole.
  virtual Tensor parameter(const std::string& name, const std::vector<int64_t>& shape) = 0;
};

}  // namespace shardproof
