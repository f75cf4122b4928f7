#include "strategies/single.hpp"

namespace shardproof {
namespace {

class Single final : public Strategy {
  std::string_view name() const override { return "single"; }
  std::vector<Axis> axes() const override { return {}; }
  std::optional<std::string> unsupported(const ModelTraits&, const Request&, const MeshShape&) const override { return std::nullopt; }
  Plan plan(const ModelTraits&, const MeshShape& mesh) const override { return {.mesh = mesh, .weights = {}, .inputs = {}, .outputs = {}}; }
  WireCost wire_cost(const ModelTraits&, const Request&, const MeshShape&, int) const override { return {}; }
  std::unique_ptr<AttentionBackend> attention(const Mesh&, std::unique_ptr<AttentionBackend> local, KeyValueMeter&) const override {
    return local;
  }
};

}  // namespace

const Strategy& single() {
  static const Single strategy;
  return strategy;
}

}  // namespace shardproof
