#pragma once

#include "strategies/strategy.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// The product of strategies on one mesh: their plans are merged, their attentions nested, their costs added. Parts are
/// given outermost mesh axis first, and the last part's attention is the outermost: `unified` is ring × ulysses, whose
/// attention is Ulysses(Ring(local)).
class Product final : public Strategy {
 public:
  /// Input Error when two parts use one axis or the axes are not in mesh order. `parts` outlive the product. A mesh in which
  /// an axis has fewer than `least_degree` ranks is unsupported.
  Product(std::string name, std::vector<const Strategy*> parts, int least_degree = 1);

  std::string_view name() const override { return name_; }
  std::vector<Axis> axes() const override;
  bool needs_lse() const override;
  std::optional<std::string> unsupported(const ModelTraits&, const Request&, const MeshShape&) const override;
  Plan plan(const ModelTraits&, const MeshShape&) const override;
  WireCost wire_cost(const ModelTraits&, const Request&, const MeshShape&, int rank) const override;
  std::unique_ptr<AttentionBackend> attention(const Mesh&, std::unique_ptr<AttentionBackend> local, KeyValueMeter&) const override;

 private:
  std::string name_;
  std::vector<const Strategy*> parts_;
  int least_degree_;
};

}  // namespace shardproof
