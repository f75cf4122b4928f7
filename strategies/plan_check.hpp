#pragma once

#include "core/dataflow.hpp"
#include "core/plan.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

using PlanEntries = std::map<std::string, Sharding>;  ///< a plan's weights, by key

/// One change of a plan: an entry set or, without a style, taken out.
struct PlanEdit {
  std::string key;
  std::optional<Sharding> style;
  friend bool operator==(const PlanEdit&, const PlanEdit&) = default;
};

/// One thing wrong with a plan.
struct PlanFault {
  std::string rule;                  ///< see docs/plan_author.md
  std::string key;                   ///< the entry that is wrong or missing; "" where it is the degree alone
  std::optional<Sharding> style;     ///< as the plan has it; nothing when it has no such entry
  std::vector<std::string> modules;  ///< the Linears it is about
  std::vector<int64_t> degrees;      ///< of those asked for; empty: every tp > 1
  std::string why;
  std::vector<PlanEdit> fix;  ///< with these, and the other faults' fixes, the plan has been found right
};

/// What one entry does.
struct EntryReport {
  std::string key;
  Sharding sharding;
  std::vector<std::string> modules;
  int64_t out_features = 0, in_features = 0;  ///< of the first module
  std::vector<std::vector<int64_t>> local;    ///< its [out, in] on a rank, per degree; empty where it does not divide
  std::vector<int64_t> saved;                 ///< parameters that a rank does not hold, per degree
  int64_t all_reduces = 0;                    ///< of a forward
  bool good = true;
};

struct PlanReport {
  std::vector<int64_t> degrees;
  std::vector<EntryReport> entries;
  std::vector<PlanFault> faults;
  int64_t parameters = 0;               ///< of the whole model
  std::vector<int64_t> per_rank;        ///< parameters on a rank, per degree
  int64_t all_reduces = 0;              ///< of a forward
  std::vector<int64_t> legal_degrees;   ///< that heads and every planned dimension allow
  std::optional<PlanEntries> repaired;  ///< the nearest plan that was found right, where there are faults
};

/// Checks a plan from shapes alone: keys, divisibility, and layouts followed through every kind of block. No weights.
/// Degrees are ≥ 1 (input Error otherwise).
PlanReport check_plan(const Dataflow& dataflow, const PlanEntries& plan, const std::vector<int64_t>& degrees);

/// One line: entry, modules, degrees, why, and what would be right.
std::string fault_text(const PlanFault& fault);

}  // namespace shardproof
