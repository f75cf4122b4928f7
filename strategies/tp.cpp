#include "strategies/tp.hpp"

#include "core/error.hpp"
#include "core/shard.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

int64_t tokens_of(Tokens kind, const Request& request, const MeshShape& mesh, int rank) {
  switch (kind) {
    case Tokens::image: return local_image_tokens(request, mesh, rank);
    case Tokens::text: return local_text_tokens(request, mesh, rank);
    case Tokens::joint: return local_tokens(request, mesh, rank);
    case Tokens::none: return 1;
  }
  return 0;
}

/// Why a Linear cannot be cut as the plan says, or nothing.
std::optional<std::string> does_not_divide(const LinearTraits& linear, const PlanEntry& entry, int degree) {
  const auto* colwise = std::get_if<Colwise>(&entry.sharding);
  const auto* rowwise = std::get_if<Rowwise>(&entry.sharding);
  if (!colwise && !rowwise) return std::nullopt;
  try {
    if (colwise) packed_share(linear.out_features, colwise->blocks, degree, 0);
    if (rowwise) packed_share(linear.in_features, rowwise->blocks, degree, 0);
  } catch (const Error& error) {
    return fmt::format("[tp] {} ({}: {}): {}", linear.name, entry.glob, sharding_text(entry.sharding), error.what());
  }
  return std::nullopt;
}

class TensorParallel final : public Strategy {
 public:
  TensorParallel() = default;
  explicit TensorParallel(std::map<std::string, Sharding> plan) : own_plan_(std::move(plan)) {}

  std::string_view name() const override { return "tp"; }
  std::vector<Axis> axes() const override { return {Axis::tp}; }

  std::optional<std::string> unsupported(const ModelTraits& model, const Request&, const MeshShape& mesh) const override {
    const int degree = mesh.degree(Axis::tp);
    if (!divides(model.heads, degree)) return fmt::format("[tp] {} heads are not divisible by tp {}", model.heads, degree);
    if (!divides(model.kv_heads, degree)) return fmt::format("[tp] {} key/value heads are not divisible by tp {}", model.kv_heads, degree);
    const Plan plan = this->plan(model, mesh);
    for (const LinearTraits& linear : model.linears)
      if (const auto reason = does_not_divide(linear, plan_entry(plan, linear.name), degree)) return reason;
    return std::nullopt;
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
    return {.mesh = mesh, .weights = own_plan_ ? *own_plan_ : model.tp_plan};
  }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const Plan plan = this->plan(model, mesh);
    WireCost cost;
    for (const LinearTraits& linear : model.linears)
      if (std::holds_alternative<Rowwise>(plan_entry(plan, linear.name).sharding))
        cost += wire::all_reduce(request.batch * tokens_of(linear.tokens, request, mesh, rank) * linear.out_features,
                                 c10::elementSize(request.dtype), mesh.degree(Axis::tp), mesh.coordinate(rank, Axis::tp));
    return cost;
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh&, std::unique_ptr<AttentionBackend> local, KeyValueMeter&) const override {
    return local;
  }

 private:
  std::optional<std::map<std::string, Sharding>> own_plan_;
};

}  // namespace

std::unique_ptr<Strategy> tensor_parallel(std::map<std::string, Sharding> plan) { return std::make_unique<TensorParallel>(std::move(plan)); }

const Strategy& tp() {
  static const TensorParallel strategy;
  return strategy;
}

}  // namespace shardproof
