#pragma once

#include "comm/local.hpp"
#include "comm/recording.hpp"
#include "harness/memory_probe.hpp"
#include "harness/recorder.hpp"
#include "harness/subject.hpp"
#include "strategies/session.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shardproof {

/// A deliberate fault for one run: each function, where given, replaces what a rank works with. Only `selftest` and tests
/// make these; a run without them is the product.
struct FaultInjection {
  std::shared_ptr<const Strategy> strategy;
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> communicator;
  std::function<std::shared_ptr<WeightSource>(std::shared_ptr<WeightSource>, int rank, int ranks)> weights;
  std::function<void(NamedTensors& inputs, int rank, int ranks, int64_t step)> inputs;
  /// Keep the product's own check that every rank starts from the same values, which would catch some faults first.
  bool check_start = false;
};

/// One strategy on one mesh of virtual ranks.
struct RankRequest {
  const Strategy* strategy;
  MeshShape mesh;
  at::ScalarType dtype;
  std::string attention;
  const FaultInjection* fault = nullptr;
  bool full_load = false;  ///< the strategy is applied to a model that was loaded whole, not chosen when it is loaded
};

/// What one rank saw.
struct RankResult {
  Tensor output;
  Trace trace;
  Traffic traffic;
  int64_t weight_bytes = 0;
  int64_t peak_tensor_bytes = 0;  ///< its weights plus the most its activations took
  int64_t peak_key_value_bytes = 0;  ///< the most keys and values its attention held
};

struct RunResult {
  std::vector<RankResult> ranks;
  std::vector<double> step_s;  ///< critical path over ranks, one per step
};

/// Runs `steps` denoising steps (0: one forward) on whole inputs.
/// Inputs and replicated weights are checked equal across ranks by hash first (not under an injected fault).
RunResult run_end_to_end(const Subject& subject, const RankRequest& request, const NamedTensors& inputs, int64_t steps);

/// One forward in which blocks, or the modules in them, get the single device's activations.
RunResult run_forced(const Subject& subject, const RankRequest& request, const NamedTensors& inputs, const Trace& single, bool blocks);

/// One forward on one device that records every module.
Trace record_single(const Subject& subject, const RankRequest& request, const NamedTensors& inputs);

}  // namespace shardproof
