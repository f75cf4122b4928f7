#pragma once

#include "harness/rank_run.hpp"

#include <functional>
#include <memory>

namespace shardproof {

/// The pieces mutants are made of: each does what the real one does, but for the one function it is given.

using AttentionFactory = std::function<std::unique_ptr<AttentionBackend>(Communicator& group, std::unique_ptr<AttentionBackend> local)>;
using PlanChange = std::function<void(Plan&)>;

/// `base` with another attention decorator (over its first axis) and a changed plan, where given.
const Strategy* broken_strategy(const Strategy& base, AttentionFactory attention, PlanChange plan);

/// Changes one parameter's slice as one rank reads it.
using WeightChange = std::function<Tensor(WeightSource& source, const std::string& name, const Slice& slice, int rank, int ranks)>;
FaultInjection broken_weights(WeightChange change);

/// A communicator whose results are changed after the real operation; children inherit the changes.
struct CommunicatorChanges {
  std::function<void(Communicator& inner, Tensor& in_place, Reduction)> all_reduce;
  std::function<Tensor(Communicator& inner, const Tensor&)> all_gather;
  std::function<std::vector<Tensor>(Communicator& inner, const Tensor&, const std::vector<int64_t>&)> all_gather_v;
};
FaultInjection broken_communicator(CommunicatorChanges changes);

}  // namespace shardproof
