#include "strategies/token_split.hpp"

#include "core/shard.hpp"

#include <fmt/format.h>

namespace shardproof {
namespace {

int64_t local_tokens(const Request& request, int degree) {
  return even_share(request.text_tokens, degree, 0).size + even_share(request.image_tokens, degree, 0).size;
}

}  // namespace

std::optional<std::string> tokens_do_not_divide(std::string_view strategy, const Request& request, Axis axis, int degree) {
  for (const auto& [kind, tokens] : {std::pair{"image", request.image_tokens}, {"text", request.text_tokens}})
    if (!divides(tokens, degree))
      return fmt::format("[{}] {} {} tokens are not divisible by {} {}", strategy, tokens, kind, axis_name(axis), degree);
  return std::nullopt;
}

Plan token_split_plan(const ModelTraits& model, const MeshShape& mesh, Axis axis) {
  Plan plan{mesh, {}, model.cp_inputs, model.cp_outputs};
  for (auto& [input, split] : plan.inputs) split.axes = {axis};
  for (auto& [module, gather] : plan.outputs) gather.axes = {axis};
  return plan;
}

WireCost output_gather_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, Axis axis, int rank) {
  const int degree = mesh.degree(axis);
  const int64_t own = request.batch * even_share(request.image_tokens, degree, 0).size * model.out_channels;
  return wire::all_gather(own, c10::elementSize(request.dtype), degree, mesh.coordinate(rank, axis));
}

int64_t local_query_elements(const ModelTraits& model, const Request& request, int degree) {
  return request.batch * local_tokens(request, degree) * model.heads * model.head_dim;
}

int64_t local_key_elements(const ModelTraits& model, const Request& request, int degree) {
  return request.batch * local_tokens(request, degree) * model.kv_heads * model.head_dim;
}

}  // namespace shardproof
