#pragma once

#include "core/dataflow.hpp"
#include "core/json.hpp"
#include "core/plan.hpp"

#include <map>
#include <string>

namespace shardproof {

/// One entry of a plan file: a style, whose blocks may be those that the model stores with the Linear.
struct PlannedStyle {
  Sharding sharding;
  bool stored_blocks = false;  ///< `"blocks": "stored"`, or a packed style that names none
  friend bool operator==(const PlannedStyle&, const PlannedStyle&) = default;
};
using PlanFile = std::map<std::string, PlannedStyle>;  ///< by key, a module name with at most one `*`

/// Reads a plan, an object of key → style:
///   "colwise", "rowwise", "rowwise_split_input", "replicated", or
///   {"style": "packed_colwise" | "packed_rowwise", "blocks": [1, 3]}  proportions, or sizes when their sum is the dim's
///   {"style": "packed_colwise", "blocks": "stored"}                   as stored with the Linear
/// Input Error that names the source, the key, what was found and what is accepted.
PlanFile parse_plan(const Json& json, const std::string& source);

/// The plan with the blocks that the Linears of `dataflow` store. Input Error naming the key where there are none.
/// Keys that match nothing keep an empty list: what is wrong with them is for the check to say.
std::map<std::string, Sharding> with_stored_blocks(const PlanFile& plan, const Dataflow& dataflow);

/// One style as `parse_plan` reads it; blocks in their lowest terms.
Json style_json(const Sharding& sharding);

/// A plan as `parse_plan` reads it; blocks in their lowest terms.
Json plan_json(const std::map<std::string, Sharding>& plan);

/// The same for people: one entry a line.
std::string plan_text(const std::map<std::string, Sharding>& plan);

/// [3072, 12288] → [1, 4]: the same blocks as the smallest proportions.
std::vector<int64_t> lowest_terms(const std::vector<int64_t>& blocks);

}  // namespace shardproof
