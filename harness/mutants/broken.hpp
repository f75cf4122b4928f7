#pragma once

#include "comm/collective_call.hpp"
#include "harness/mutants/mutants.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

/// The pieces mutants are made of: each wraps the real one at one of its seams and does what it does, but for the one
/// function it is given.

/// What an attention is called with.
struct AttentionCall {
  Tensor q, k, v;
  std::optional<Tensor> mask;
};

/// Calls of the local backend within one attention of the model: one, or one for each chunk of a ring.
struct ChunkCalls {
  size_t expected = 1;               ///< the ring's degree
  std::vector<AttentionCall> calls;  ///< as the strategy made them, the one at hand last
  std::vector<Attended> parts;       ///< what the backend really gave
  std::vector<Attended> before;      ///< the parts of the attention before
  size_t index() const { return calls.size() - 1; }
  bool last() const { return calls.size() == expected; }
};
struct ChunkChange {
  std::function<void(AttentionCall& call, const ChunkCalls& seen)> call = nullptr;
  std::function<void(Attended& part, const ChunkCalls& seen)> part = nullptr;
};

/// One attention of the model, from outside.
struct AttentionSite {
  const Mesh& mesh;
  AttentionBackend& local;
  int64_t text_tokens;                       ///< of this rank, at the front
  std::vector<int64_t> all_text, all_image;  ///< of every rank of the world
  Tensor previous{};                         ///< the attention before gave this
};
struct AttentionChange {
  std::function<void(AttentionCall& call, AttentionSite& site)> call = nullptr;
  std::function<void(Tensor& out, AttentionSite& site)> result = nullptr;
  std::function<Tensor(const AttentionCall& call, AttentionSite& site)> instead = nullptr;
};

/// The site's strategy with one of its seams changed.
FaultInjection broken_chunks(const FaultSite& site, ChunkChange change);
FaultInjection broken_attention(const FaultSite& site, AttentionChange change);
using PlanChange = std::function<void(Plan&)>;
FaultInjection broken_plan(const FaultSite& site, PlanChange change);

/// Changes one parameter's slice as one rank reads it.
using WeightChange =
    std::function<Tensor(WeightSource& source, const std::string& name, const Slice& slice, int rank, int ranks)>;
FaultInjection broken_weights(WeightChange change);

/// What a collective carries.
enum class Cargo { attention, mask, output };

/// What a rank got from one collective.
struct Arrival {
  Collective operation;
  Cargo cargo;
  int rank, size;  ///< in the group
  int world_rank;
  std::vector<Tensor> parts;          ///< by sender; of send_recv only the one
  const std::vector<Tensor>& before;  ///< what the call before of this kind brought; may be empty
  Tensor& neighbours() { return parts[operation == Collective::send_recv ? 0 : static_cast<size_t>(rank + 1) % parts.size()]; }
};

/// A communicator whose results are changed after the real operation; children inherit the changes.
struct CommunicatorChanges {
  std::function<void(Communicator& inner, Tensor& in_place, Reduction)> all_reduce = nullptr;
  std::function<void(Arrival&)> arrival = nullptr;
  std::function<void(std::vector<std::vector<int64_t>>& lengths)> lengths = nullptr;          ///< after an exchange
  std::function<void(int& to, int& from, int rank, int size, int64_t call)> route = nullptr;  ///< before send_recv
  std::map<std::string, std::string> instead{};  ///< groups that are taken for another, by name
};
FaultInjection broken_communicator(CommunicatorChanges changes);

}  // namespace shardproof
