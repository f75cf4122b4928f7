#pragma once

#include "core/plan.hpp"
#include "core/shard.hpp"
#include "core/tensor.hpp"
#include "models/layout.hpp"

#include <vector>

namespace shardproof {

/// Where every rank's part of a module's activation lies in the whole one, for one plan and request: cuts whole
/// activations for forced inputs, and puts ranks' outputs back together.
class Placed {
 public:
  /// Token axes and unevenness come from the plan's split of hidden_states.
  Placed(const Plan& plan, int64_t text_tokens, int64_t image_tokens);

  /// This rank's part of a whole activation.
  Tensor cut(const Tensor& whole, const Layout& layout, int rank) const;

  /// One whole activation for each set of ranks that together hold one (replicas of the value give several). `parts` by
  /// world rank. Runtime Error when a part has another shape than its place, or the parts leave a gap.
  std::vector<Tensor> assemble(const std::vector<Tensor>& parts, const Layout& layout) const;

 private:
  std::vector<Range> token_ranges(Tokens tokens, int rank) const;
  std::vector<Range> ranges(const Layout& layout, int64_t dim, int64_t length, int rank) const;
  int replica(const Layout& layout, int rank) const;
  int64_t whole_length(const Layout& layout, int64_t dim, int64_t local, int rank) const;

  MeshShape mesh_;
  std::vector<Axis> token_axes_;
  int64_t text_tokens_, image_tokens_;
};

}  // namespace shardproof
