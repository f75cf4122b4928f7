#include "strategies/data_parallel.hpp"

#include "core/shard.hpp"

namespace shardproof {
namespace {

class DataParallel final : public Strategy {
  std::string_view name() const override { return "data_parallel"; }
  std::vector<Axis> axes() const override { return {Axis::dp}; }
  std::optional<std::string> unsupported(const ModelTraits&, const Request&, const MeshShape&) const override { return std::nullopt; }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
    Plan plan{.mesh = mesh, .weights = {}, .inputs = {}, .outputs = {}};
    for (const auto& [input, dims] : model.batched_inputs) plan.inputs[input] = {0, dims, {Axis::dp}, true};
    for (const auto& [module, gather] : model.cp_outputs) plan.outputs[module] = {0, gather.expected_dims, {Axis::dp}, true};
    return plan;
  }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int replicas = mesh.degree(Axis::dp), replica = mesh.coordinate(rank, Axis::dp);
    const int64_t prompts = uneven_share(request.batch, replicas, replica).size;
    return wire::all_gather_v(prompts * request.image_tokens * model.out_channels, c10::elementSize(request.dtype), replicas, replica);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh&, std::unique_ptr<AttentionBackend> local, KeyValueMeter&) const override {
    return local;
  }
};

}  // namespace

const Strategy& data_parallel() {
  static const DataParallel strategy;
  return strategy;
}

}  // namespace shardproof
