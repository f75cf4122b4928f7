#include "strategies/product.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <functional>

namespace shardproof {
namespace {

/// A tensor that two parts cut is cut over the axes of both.
void merge(std::map<std::string, Split>& into, const std::map<std::string, Split>& from) {
  for (const auto& [name, split] : from) {
    auto& merged = into.try_emplace(name, split.dim, split.expected_dims, std::vector<Axis>{}, false).first->second;
    merged.axes.insert(merged.axes.end(), split.axes.begin(), split.axes.end());
    merged.uneven = merged.uneven || split.uneven;
  }
}

}  // namespace

Product::Product(std::string name, std::vector<const Strategy*> parts, int least_degree)
    : name_(std::move(name)), parts_(std::move(parts)), least_degree_(least_degree) {
  const auto all = axes();
  if (std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()) != all.end())
    fail_input("strategies", "\"{}\" is not a product; accepted: strategies of different axes, in the order tp, ring, ulysses", name_);
}

std::vector<Axis> Product::axes() const {
  std::vector<Axis> all;
  for (const Strategy* part : parts_)
    for (const Axis axis : part->axes()) all.push_back(axis);
  return all;
}

bool Product::needs_lse() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Strategy* part) { return part->needs_lse(); });
}

std::optional<std::string> Product::unsupported(const ModelTraits& model, const Request& request, const MeshShape& mesh) const {
  for (const Axis axis : axes())
    if (mesh.degree(axis) < least_degree_)
      return fmt::format("[{}] {} {}: every degree must be {} or more, so at least {} ranks", name_, axis_name(axis), mesh.degree(axis),
                         least_degree_, 1 << axes().size());
  for (const Strategy* part : parts_)
    if (const auto reason = part->unsupported(model, request, mesh)) return reason;
  return std::nullopt;
}

Plan Product::plan(const ModelTraits& model, const MeshShape& mesh) const {
  Plan product{.mesh = mesh, .weights = {}, .inputs = {}, .outputs = {}};
  for (const Strategy* part : parts_) {
    const Plan plan = part->plan(model, mesh);
    product.weights.insert(plan.weights.begin(), plan.weights.end());
    merge(product.inputs, plan.inputs);
    merge(product.module_inputs, plan.module_inputs);
    merge(product.outputs, plan.outputs);
    product.convert_to_fp32 = product.convert_to_fp32 && plan.convert_to_fp32;
  }
  return product;
}

WireCost Product::wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const {
  WireCost cost;
  for (const Strategy* part : parts_) cost += part->wire_cost(model, request, mesh, rank);
  return cost;
}

std::unique_ptr<AttentionBackend> Product::attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const {
  for (const Strategy* part : parts_) local = part->attention(mesh, std::move(local), meter);
  return local;
}

}  // namespace shardproof
