#pragma once

#include "comm/mesh.hpp"
#include "models/model.hpp"
#include "models/weight_source.hpp"
#include "strategies/strategy.hpp"

#include <map>
#include <memory>
#include <string>

namespace shardproof {

/// One parameter as a rank holds it: a slice of a tensor of `shape`.
struct HeldParameter {
  Tensor tensor;
  std::vector<int64_t> shape;
  Slice slice;                        ///< this rank's
  std::vector<Slice> slices_by_rank;  ///< every tp rank's; empty for a parameter that all hold whole
};

/// One rank's running model under a strategy: the only interpreter of a plan. It reads this rank's slices of the
/// weights, cuts the inputs, runs the model, and gathers the output, so that every rank gives whole inputs and gets the
/// whole output. Collective over the world: every rank builds and runs the same.
class Session final : public ModuleSource {
 public:
  /// `spec`, `strategy`, `world` and `weights` outlive the session. Weights are cast to `dtype` after slicing.
  /// Input Error, before any weight is read, on a plan entry that matches no Linear, on one of the model's token inputs that
  /// the plan would leave unsplit, and on an attention backend that cannot serve the strategy.
  Session(const ModelSpec& spec, const Strategy& strategy, const MeshShape& mesh, Communicator& world, WeightSource& weights,
          at::ScalarType dtype, std::unique_ptr<AttentionBackend> attention);

  /// Whole inputs → whole output [B, S, out] on every rank.
  Tensor forward(const NamedTensors& inputs, Probe& probe);

  /// Another local attention from now on. Input Error, leaving the old one, when it cannot serve the strategy.
  void change_attention(std::unique_ptr<AttentionBackend> attention);

  const Plan& plan() const { return plan_; }
  const Mesh& mesh() const { return mesh_; }
  /// Bytes of the weights this rank holds.
  int64_t weight_bytes() const { return weight_bytes_; }

  /// The most bytes of keys and values that this rank's attention held at once.
  int64_t peak_key_value_bytes() const { return meter_.peak_bytes(); }

  /// All parameters by name. They are the model's own tensors.
  const std::map<std::string, HeldParameter>& parameters() const { return held_; }

  /// Hashes of the parameters that every rank holds whole, by name; for a check that they are equal.
  std::map<std::string, uint64_t> replicated_hashes() const;

  ShardedLinear linear(const std::string& name, int64_t out_features, int64_t in_features, bool has_bias) override;
  Tensor parameter(const std::string& name, const std::vector<int64_t>& shape) override;

 private:
  Tensor read(const std::string& name, const std::vector<int64_t>& shape, const Slice& slice, std::vector<Slice> by_rank = {});
  NamedTensors cut(const NamedTensors& inputs) const;
  Tensor run(const NamedTensors& local, Probe& probe);
  Tensor gather(Tensor output, const NamedTensors& inputs) const;

  Tensor cut_one(const std::string& name, Tensor whole, const Split& split) const;

  const ModelSpec& spec_;
  const Strategy& strategy_;
  WeightSource& weights_;
  at::ScalarType dtype_;
  Mesh mesh_;
  Plan plan_;
  KeyValueMeter meter_;
  std::unique_ptr<AttentionBackend> attention_;
  int64_t weight_bytes_ = 0;
  std::map<std::string, HeldParameter> held_;
  std::unique_ptr<Model> model_;
};

}  // namespace shardproof
