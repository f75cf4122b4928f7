#pragma once

#include "comm/communicator.hpp"
#include "core/plan.hpp"
#include "core/tensor.hpp"
#include "models/probe.hpp"

#include <optional>
#include <string>

namespace shardproof {

/// One Linear as this rank holds it. See core/plan.hpp for what each sharding means.
/// A row-wise product is summed over the tp axis in the run's dtype; the bias is added once, after the sum.
class ShardedLinear {
 public:
  /// `weight` and `bias` are this rank's shards; `tp` may be null where nothing is reduced.
  ShardedLinear(std::string name, Sharding sharding, Tensor weight, std::optional<Tensor> bias, Communicator* tp);

  /// x [B, S, in] or [B, in] → [.., out]; `tokens` says what dim 1 holds, for the probe.
  Tensor forward(Tensor x, Tokens tokens, Probe& probe) const;

  int64_t local_out_features() const { return weight_.size(0); }

 private:
  Tensor row_wise(const Tensor& x, const Rowwise& rowwise) const;

  std::string name_;
  Sharding sharding_;
  Tensor weight_;
  std::optional<Tensor> bias_;
  Communicator* tp_;
};

}  // namespace shardproof
