#include "harness/rank_run.hpp"

#include "core/error.hpp"
#include "core/hash.hpp"
#include "harness/shared_weights.hpp"
#include "models/flow_match.hpp"
#include "models/full_weights.hpp"

#include <numeric>

namespace shardproof {
namespace {

/// All ranks must start from the same numbers: a rank with other latents gives a plausible, wrong picture.
void check_equal_across_ranks(Communicator& world, const std::map<std::string, uint64_t>& hashes) {
  std::vector<int64_t> mine;
  for (const auto& [name, hash] : hashes) mine.push_back(static_cast<int64_t>(hash));
  const auto all = world.exchange(mine);
  for (int rank = 0; rank < world.size(); ++rank) {
    size_t i = 0;
    for (const auto& [name, hash] : hashes) {
      if (all[rank].size() != mine.size() || all[rank][i] != all[0][i])
        fail_runtime("session", "{} on rank {} differs from rank 0's; every rank must start from the same values", name, rank);
      ++i;
    }
  }
}

void check_equal_start(Communicator& world, const NamedTensors& inputs, const Session& session) {
  std::map<std::string, uint64_t> hashes;
  for (const auto& [name, tensor] : inputs) hashes["input " + name] = tensor_hash(tensor);
  for (const auto& [name, hash] : session.replicated_hashes()) hashes["replicated weight " + name] = hash;
  check_equal_across_ranks(world, hashes);
}

/// What one rank works with: the product's pieces, or an injected fault's.
struct Seat {
  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
  std::unique_ptr<Communicator> world;
  std::shared_ptr<WeightSource> weights;
  std::unique_ptr<Session> session;

  Seat(const Subject& subject, const RankRequest& request, Communicator& outer, std::shared_ptr<WeightSource> shared) {
    world = std::make_unique<RecordingCommunicator>(outer, traffic);
    weights = std::move(shared);
    const Strategy* strategy = request.strategy;
    if (const FaultInjection* fault = request.fault) {
      if (fault->communicator) world = fault->communicator(std::move(world));
      if (fault->weights) weights = fault->weights(weights, outer.rank(), outer.size());
      if (fault->strategy) strategy = fault->strategy.get();
    }
    session = std::make_unique<Session>(subject.spec, *strategy, request.mesh, *world, *weights, request.dtype,
                                        make_attention_backend(request.attention));
  }
};

std::shared_ptr<WeightSource> weights_of(const Subject& subject, const RankRequest& request) {
  if (request.full_load) return std::make_shared<FullWeights>(*subject.weights, request.dtype);
  return std::make_shared<SharedWeights>(subject.weights);
}

NamedTensors inputs_of(const RankRequest& request, const NamedTensors& whole, int rank, int64_t step) {
  NamedTensors inputs = whole;
  if (request.fault && request.fault->inputs) request.fault->inputs(inputs, rank, request.mesh.world_size(), step);
  return inputs;
}

Tensor denoise(Session& session, const RankRequest& request, const NamedTensors& whole, int64_t steps, Communicator& outer,
               std::vector<double>& step_end_s) {
  Probe none;
  Tensor latents = whole.at("hidden_states");
  const auto sigmas = flow_match_sigmas(steps, latents.size(1));
  for (int64_t step = 0; step < steps; ++step) {
    NamedTensors inputs = whole;
    inputs["hidden_states"] = latents;
    inputs["timestep"] = at::full_like(whole.at("timestep"), sigmas[step]);
    latents = euler_step(latents, session.forward(inputs_of(request, inputs, outer.rank(), step), none), sigmas[step], sigmas[step + 1]);
    outer.barrier();
    step_end_s.push_back(local_clock_s());
  }
  return latents;
}

}  // namespace

RunResult run_end_to_end(const Subject& subject, const RankRequest& request, const NamedTensors& inputs, int64_t steps) {
  const int ranks = request.mesh.world_size();
  RunResult result;
  result.ranks.resize(ranks);
  std::vector<double> clock_s;
  MemoryProbe memory;
  const auto shared = weights_of(subject, request);
  const auto body = [&](Communicator& outer) {
    RankResult& mine = result.ranks[outer.rank()];
    Seat seat(subject, request, outer, shared);
    if (!request.fault || request.fault->check_start)
      check_equal_start(outer, inputs_of(request, inputs, outer.rank(), 0), *seat.session);
    mine.weight_bytes = seat.session->weight_bytes();
    outer.barrier();
    if (outer.rank() == 0) memory.reset_peak();
    outer.barrier();
    const int64_t before = memory.live(outer.rank());
    std::vector<double> ends{local_clock_s()};
    if (steps == 0) {
      Probe none;
      mine.output = seat.session->forward(inputs_of(request, inputs, outer.rank(), 0), none);
      outer.barrier();
      ends.push_back(local_clock_s());
    } else {
      mine.output = denoise(*seat.session, request, inputs, steps, outer, ends);
    }
    mine.peak_tensor_bytes = mine.weight_bytes + memory.peak(outer.rank()) - before;
    mine.peak_key_value_bytes = seat.session->peak_key_value_bytes();
    mine.traffic = *seat.traffic;
    if (outer.rank() == 0) clock_s = ends;
  };
  run_local(ranks, body, {[&](int rank) { memory.set_owner(rank); }});
  for (size_t i = 1; i < clock_s.size(); ++i) result.step_s.push_back(clock_s[i] - clock_s[i - 1]);
  return result;
}

RunResult run_forced(const Subject& subject, const RankRequest& request, const NamedTensors& inputs, const Trace& single, bool blocks) {
  RunResult result;
  result.ranks.resize(request.mesh.world_size());
  const auto shared = weights_of(subject, request);
  run_local(request.mesh.world_size(), [&](Communicator& outer) {
    Seat seat(subject, request, outer, shared);
    const Placed placed(seat.session->plan(), inputs.at("encoder_hidden_states").size(1), inputs.at("hidden_states").size(1));
    Forcer forcer(single, placed, outer.rank(), blocks);
    result.ranks[outer.rank()].output = seat.session->forward(inputs_of(request, inputs, outer.rank(), 0), forcer);
    result.ranks[outer.rank()].trace = forcer.trace();
  });
  return result;
}

Trace record_single(const Subject& subject, const RankRequest& request, const NamedTensors& inputs) {
  Trace trace;
  run_local(1, [&](Communicator& outer) {
    Seat seat(subject, request, outer, subject.weights);
    Recorder recorder;
    seat.session->forward(inputs, recorder);
    trace = recorder.trace();
  });
  return trace;
}

}  // namespace shardproof
