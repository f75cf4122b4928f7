#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// What the context-parallel strategies share: the model's `_cp_plan` over one axis, cut evenly.

/// Text and image are each cut into even shares; why that cannot be, or nothing.
std::optional<std::string> tokens_do_not_divide(std::string_view strategy, const Request& request, Axis axis, int degree);

Plan token_split_plan(const ModelTraits& model, const MeshShape& mesh, Axis axis);

/// The gather of the model's output at the end of a forward.
WireCost output_gather_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, Axis axis, int rank);

/// Elements of one rank's q (or its output) in one attention: B * (T + S)/N * H * D.
int64_t local_query_elements(const ModelTraits& model, const Request& request, int degree);
/// The same for k or v.
int64_t local_key_elements(const ModelTraits& model, const Request& request, int degree);

}  // namespace shardproof
