#pragma once

#include "core/dataflow.hpp"
#include "core/model_config.hpp"
#include "core/plan.hpp"
#include "models/model_traits.hpp"

#include <map>
#include <string>

namespace shardproof {

/// What the static check of a plan needs to know of a model: no weights.
struct PlannedModel {
  std::string name;  ///< preset or folder, for tables
  Dataflow dataflow;
  std::map<std::string, Sharding> tp_plan;  ///< as diffusers ships it
};

/// A preset, or a diffusers folder of which only config.json is read. Input Error on an unknown name or a malformed config.
PlannedModel load_planned_model(const std::string& model);

/// What strategies need to know of a model of any family.
ModelTraits model_traits(const ModelConfig& config);

/// The same of a preset or folder, as load_planned_model takes it.
ModelTraits load_model_traits(const std::string& model);

}  // namespace shardproof
