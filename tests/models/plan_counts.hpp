#pragma once

#include "core/shard.hpp"
#include "models/model_traits.hpp"

namespace shardproof::test {

/// Parameters of the Linears that the shipped plan names.
inline int64_t named_parameters(const ModelTraits& traits) {
  Plan plan;
  plan.weights = traits.tp_plan;
  int64_t named = 0;
  for (const LinearTraits& linear : traits.linears)
    if (!plan_entry(plan, linear.name).glob.empty()) named += linear.out_features * (linear.in_features + (linear.bias ? 1 : 0));
  return named;
}

/// Parameters that one of `degree` tensor-parallel ranks holds under the shipped plan.
inline int64_t parameters_per_rank(const ModelTraits& traits, int64_t degree) {
  Plan plan;
  plan.weights = traits.tp_plan;
  int64_t count = parameter_count(traits) - named_parameters(traits);
  for (const LinearTraits& linear : traits.linears) {
    const PlanEntry entry = plan_entry(plan, linear.name);
    if (entry.glob.empty()) continue;
    int64_t rows = linear.out_features, columns = linear.in_features;
    if (const auto* colwise = std::get_if<Colwise>(&entry.sharding))
      rows = total_size(packed_share(rows, colwise->blocks, degree, 0));
    if (const auto* rowwise = std::get_if<Rowwise>(&entry.sharding))
      columns = total_size(packed_share(columns, rowwise->blocks, degree, 0));
    count += rows * (columns + (linear.bias ? 1 : 0));
  }
  return count;
}

}  // namespace shardproof::test
