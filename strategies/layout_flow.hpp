#pragma once

#include "core/dataflow.hpp"
#include "core/plan.hpp"
#include "strategies/feature_layout.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardproof {

/// Shardings of a region's Linears, by their names in the region; what is not named is replicated.
using Shardings = std::map<std::string, Sharding>;

/// A place where ranks would compute something else than one device.
struct FlowFault {
  std::string rule;                   ///< one of the names in docs/plan_author.md: "rowwise-input", …
  std::string why;                    ///< in the model's terms, module names as in the region
  std::vector<std::string> involved;  ///< Linears whose entries may be wrong or missing, likeliest first
  size_t step = 0;                    ///< index of the step in the region
};

/// A number that tp must divide, whatever else is right.
struct Need {
  std::string module;  ///< the Linear whose entry asks for it
  std::string what;    ///< "block 3 (size 5) of its 18 rows", "2 heads of 128"
  int64_t count;
};

struct FlowResult {
  std::vector<FlowFault> faults;
  std::vector<Need> needs;
  std::map<std::string, FeatureLayout> inputs;  ///< of each Linear
  int64_t all_reduces = 0;                      ///< in one run of the region
};

/// Follows how features lie over the ranks through a region, step by step, for any tp > 1. After a fault the layout is
/// unknown, and nothing is said of it until a Linear makes a new one, so that one mistake is one fault. The rules are those
/// of the steps; none knows a model.
FlowResult follow_layouts(const Region& region, const Shardings& shardings);

}  // namespace shardproof
