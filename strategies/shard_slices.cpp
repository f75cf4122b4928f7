#include "strategies/shard_slices.hpp"

namespace shardproof {

LinearSlices linear_slices(const Sharding& sharding, int64_t out_features, int64_t in_features, int tp, int tp_rank) {
  Slice rows{0, {}}, columns{1, {}};
  if (const auto* colwise = std::get_if<Colwise>(&sharding)) rows.ranges = packed_share(out_features, colwise->blocks, tp, tp_rank);
  if (const auto* rowwise = std::get_if<Rowwise>(&sharding)) columns.ranges = packed_share(in_features, rowwise->blocks, tp, tp_rank);
  return {rows.ranges.empty() ? columns : rows, rows};
}

std::map<std::string, Slice> rank_slices(const ModelTraits& model, const Plan& plan, int tp, int tp_rank) {
  std::map<std::string, Slice> slices;
  for (const auto& [name, shape] : model.parameters) slices[name] = {};
  for (const LinearTraits& linear : model.linears) {
    const auto mine = linear_slices(plan_entry(plan, linear.name).sharding, linear.out_features, linear.in_features, tp, tp_rank);
    slices[linear.name + ".weight"] = mine.weight;
    if (linear.bias) slices[linear.name + ".bias"] = mine.bias;
  }
  return slices;
}

int64_t slice_elements(const Slice& slice, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    elements *= !slice.ranges.empty() && static_cast<int64_t>(dim) == slice.dim ? total_size(slice.ranges) : shape[dim];
  return elements;
}

}  // namespace shardproof
