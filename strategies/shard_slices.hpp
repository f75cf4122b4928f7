#pragma once

#include "core/plan.hpp"
#include "models/model_traits.hpp"
#include "models/weight_source.hpp"

#include <map>
#include <string>

namespace shardproof {

/// What one rank holds of a Linear [out, in]: rows of weight and bias, or columns of the weight, or all of both.
struct LinearSlices {
  Slice weight, bias;
};
LinearSlices linear_slices(const Sharding& sharding, int64_t out_features, int64_t in_features, int tp, int tp_rank);

/// What one rank of `tp` holds of every parameter of a model, by name. (A session reads the same slices; this is for those
/// who load, count or save without running.)
std::map<std::string, Slice> rank_slices(const ModelTraits& model, const Plan& plan, int tp, int tp_rank);

/// Elements of a slice of a tensor of this shape.
int64_t slice_elements(const Slice& slice, const std::vector<int64_t>& shape);

}  // namespace shardproof
