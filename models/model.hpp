#pragma once

#include "core/named_tensors.hpp"
#include "kernels/attention_backend.hpp"
#include "models/model_traits.hpp"
#include "models/module_source.hpp"
#include "models/probe.hpp"

#include <functional>
#include <memory>

namespace shardproof {

/// A transformer on the kernels of `kernels/`, holding this rank's share of the weights.
class Model {
 public:
  virtual ~Model() = default;
  /// The prediction for this rank's tokens. `inputs`: this rank's share, by diffusers' argument names, floats in the
  /// model's dtype. `attention` joins the ranks' tokens where there is anything to join.
  virtual Tensor forward(const NamedTensors& inputs, AttentionBackend& attention, Probe& probe) const = 0;
};

/// A model that can be built: what strategies need to know of it, and how a rank builds its share.
struct ModelSpec {
  std::string name;  ///< preset or checkpoint folder's name, for tables
  ModelTraits traits;
  std::function<std::unique_ptr<Model>(ModuleSource&)> build;
};

}  // namespace shardproof
