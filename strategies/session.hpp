#pragma once

#include "comm/mesh.hpp"
#include "models/model.hpp"
#include "models/weight_source.hpp"
#include "strategies/strategy.hpp"

#include <map>
#include <memory>
#include <string>

namespace shardproof {

/// One rank's running model under a strategy: the only interpreter of a plan. It reads this rank's slices of the
/// weights, cuts the inputs, runs the model, and gathers the output, so that every rank gives whole inputs and gets the
/// whole output. Collective over the world: every rank builds and runs the same.
class Session final : public ModuleSource {
 public:
  /// `spec`, `strategy`, `world` and `weights` outlive the session. Weights are cast to `dtype` after slicing.
  /// Input Error, before any weight is read, on a plan entry that matches no Linear.
  Session(const ModelSpec& spec, const Strategy& strategy, const MeshShape& mesh, Communicator& world, WeightSource& weights,
          at::ScalarType dtype, std::unique_ptr<AttentionBackend> attention);

  /// Whole inputs → whole output [B, S, out] on every rank.
  Tensor forward(const NamedTensors& inputs, Probe& probe);

  const Plan& plan() const { return plan_; }
  const Mesh& mesh() const { return mesh_; }
  /// Bytes of the weights this rank holds.
  int64_t weight_bytes() const { return weight_bytes_; }

  /// Hashes of the parameters that every rank holds whole, by name; for a check that they are equal.
  std::map<std::string, uint64_t> replicated_hashes() const;

  ShardedLinear linear(const std::string& name, int64_t out_features, int64_t in_features, bool has_bias) override;
  Tensor parameter(const std::string& name, const std::vector<int64_t>& shape) override;

 private:
  Tensor read(const std::string& name, const std::vector<int64_t>& shape, const Slice& slice);
  NamedTensors cut(const NamedTensors& inputs) const;
  Tensor run(const NamedTensors& local, Probe& probe);
  Tensor gather(Tensor output, const NamedTensors& inputs) const;

  const ModelSpec& spec_;
  WeightSource& weights_;
  at::ScalarType dtype_;
  Mesh mesh_;
  Plan plan_;
  std::unique_ptr<AttentionBackend> attention_;
  int64_t weight_bytes_ = 0;
  std::map<std::string, Tensor> replicated_;
  std::unique_ptr<Model> model_;
};

}  // namespace shardproof
