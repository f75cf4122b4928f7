#pragma once

#include "tests/strategies/plan_subjects.hpp"

#include <string>
#include <vector>

namespace shardproof::test {

/// A shipped plan with one mistake in it.
struct PlanMutant {
  std::string model, name;
  PlanEntries plan;
  std::vector<std::string> keys;  ///< entries that the report must name
  bool restores = true;           ///< the shipped plan is the nearest right one, and must be what is proposed
};

/// Every kind of mistake, in every model that it can be made in.
std::vector<PlanMutant> plan_mutants();

}  // namespace shardproof::test
