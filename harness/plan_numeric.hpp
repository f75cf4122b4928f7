#pragma once

#include "harness/verify.hpp"
#include "strategies/plan_check.hpp"

#include <functional>
#include <string>
#include <vector>

namespace shardproof {

/// What running a plan on virtual ranks showed, at one degree.
struct NumericVerdict {
  int64_t degree = 1;
  Row row;             ///< fp64 against the reference, module by module; `failed` where the degree cannot be
  std::string module;  ///< where it went wrong first, or the last one entered before it broke
  std::vector<PlanFault> explained;  ///< what the static check says at this degree
};

/// The model on which a plan can be run here: the one named, or where that is a preset too large for this machine its
/// family's tiny preset, whose blocks have the same proportions.
std::string numeric_model(const std::string& model);

/// The plan with packed blocks as their lowest proportions: sizes of the real model mean the same on a narrower one.
PlanEntries in_proportion(PlanEntries plan);

/// Runs the plan at each degree on virtual ranks in fp64, every module on the single device's inputs and end to end. A plan
/// that breaks on a shape gives an `error` row that names the module and the entries behind it, never the raw error alone.
std::vector<NumericVerdict> check_plan_numerically(const Subject& subject, const Dataflow& dataflow, const PlanEntries& plan,
                                                   const std::vector<int64_t>& degrees, const std::function<void(const std::string&)>& progress);

/// One line a degree for people, and what explains it.
std::string numeric_text(const std::vector<NumericVerdict>& verdicts);
Json numeric_json(const std::vector<NumericVerdict>& verdicts);
bool all_passed(const std::vector<NumericVerdict>& verdicts);

}  // namespace shardproof
