#include "strategies/token_split.hpp"

#include "core/shard.hpp"

#include <fmt/format.h>

namespace shardproof {
namespace {

/// A rank's share of `length` when it is cut over these axes, outermost first.
int64_t share(int64_t length, const MeshShape& mesh, const std::vector<Axis>& axes, int rank) {
  for (const Axis axis : axes) length = uneven_share(length, mesh.degree(axis), mesh.coordinate(rank, axis)).size;
  return length;
}

const std::vector<Axis> cut_axes{Axis::ring, Axis::ulysses};

std::string degrees_text(const MeshShape& mesh) {
  std::vector<std::string> factors;
  for (const Axis axis : cut_axes)
    if (mesh.degree(axis) > 1) factors.push_back(fmt::format("{} {}", axis_name(axis), mesh.degree(axis)));
  return fmt::format("{}", fmt::join(factors, " × "));
}

}  // namespace

int context_parallel_degree(const MeshShape& mesh) { return mesh.degree(Axis::ring) * mesh.degree(Axis::ulysses); }

int64_t local_text_tokens(const Request& request, const MeshShape& mesh, int rank) { return share(request.text_tokens, mesh, cut_axes, rank); }

int64_t local_image_tokens(const Request& request, const MeshShape& mesh, int rank) { return share(request.image_tokens, mesh, cut_axes, rank); }

int64_t local_tokens(const Request& request, const MeshShape& mesh, int rank) {
  return local_text_tokens(request, mesh, rank) + local_image_tokens(request, mesh, rank);
}

std::vector<int64_t> group_tokens(const Request& request, const MeshShape& mesh, int rank, Axis axis) {
  std::vector<int64_t> tokens;
  for (const int member : mesh.group(rank, axis)) {
    const std::vector<Axis> held = axis == Axis::ring ? std::vector<Axis>{Axis::ring} : cut_axes;
    tokens.push_back(share(request.text_tokens, mesh, held, member) + share(request.image_tokens, mesh, held, member));
  }
  return tokens;
}

std::optional<std::string> tokens_do_not_divide(std::string_view strategy, const Request& request, const MeshShape& mesh) {
  for (const auto& [kind, tokens] : {std::pair{"image", request.image_tokens}, {"text", request.text_tokens}})
    if (!divides(tokens, context_parallel_degree(mesh)))
      return fmt::format("[{}] {} {} tokens are not divisible by {}", strategy, tokens, kind, degrees_text(mesh));
  return std::nullopt;
}

std::optional<std::string> fewer_tokens_than_ranks(std::string_view strategy, const Request& request, const MeshShape& mesh) {
  for (int rank = 0; rank < mesh.world_size(); ++rank)
    if (local_tokens(request, mesh, rank) == 0)
      return fmt::format("[{}] {} image and {} text tokens are fewer than {}: a rank would hold none", strategy, request.image_tokens,
                         request.text_tokens, degrees_text(mesh));
  return std::nullopt;
}

Plan token_split_plan(const ModelTraits& model, const MeshShape& mesh, Axis axis, bool uneven) {
  Plan plan{.mesh = mesh, .weights = {}, .inputs = model.cp_inputs, .outputs = model.cp_outputs, .module_inputs = model.cp_module_inputs};
  for (auto* splits : {&plan.inputs, &plan.module_inputs, &plan.outputs})
    for (auto& [name, split] : *splits) {
      split.axes = {axis};
      split.uneven = uneven;
    }
  return plan;
}

WireCost output_gather_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, Axis axis, int rank, bool uneven) {
  const std::vector<Axis> held = axis == Axis::ring ? std::vector<Axis>{Axis::ring} : cut_axes;
  const int64_t own = request.batch * share(request.image_tokens, mesh, held, rank) * model.out_channels;
  const auto cost = uneven ? wire::all_gather_v : wire::all_gather;
  return cost(own, c10::elementSize(request.dtype), mesh.degree(axis), mesh.coordinate(rank, axis));
}

HeadShares head_shares(int64_t heads, int64_t kv_heads, int parts) {
  if (divides(kv_heads, parts)) return {uneven_sizes(heads, parts), uneven_sizes(kv_heads, parts), false};
  return {uneven_sizes(heads, parts), uneven_sizes(heads, parts), heads != kv_heads};
}

}  // namespace shardproof
