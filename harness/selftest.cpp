#include "harness/selftest.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace shardproof {
namespace {

/// The hardest family, which all faults show in: logits differ along the tokens and are mostly negative.
VerifyRequest request_for(const Candidate& candidate, bool mask, const std::string& attention, uint64_t seed) {
  VerifyRequest request;
  request.candidates = {candidate};
  request.dtypes = {at::kDouble};
  request.families = {"negative_logits"};
  request.steps = {1};
  request.shape = mutant_shape(candidate.strategy->name());
  request.attention = attention;
  request.padded_mask = mask;
  request.seed = seed;
  return request;
}

/// One strategy's mutants, on baselines that all strategies share.
class BrokenRuns {
 public:
  BrokenRuns(const Subject& subject, Baselines& baselines, const Candidate& candidate, const std::string& attention,
             uint64_t seed)
      : subject_(subject), baselines_(baselines), candidate_(candidate), attention_(attention), seed_(seed) {}

  /// Why its mutants with, or without, masks cannot run here. Runtime Error when right code does not pass.
  std::optional<std::string> cannot_run(bool mask) {
    const VerifyRequest request = request_for(candidate_, mask, attention_, seed_);
    const Row row = verify(subject_, request, baselines_).front();
    if (row.status == Status::failed) return row.reason;
    if (row.status != Status::pass)
      fail_runtime("selftest", "{}[{}] does not pass unbroken: {}", row.strategy, candidate_.mesh.text(),
                   row.reason.value_or(""));
    return std::nullopt;
  }

  Verdict run(const Mutation& mutation) {
    VerifyRequest request = request_for(candidate_, mutation.mask, attention_, seed_);
    Shape shape = request.shape;
    if (mutation.mask) shape.batch = 2;
    const FaultInjection fault = mutation.inject({*candidate_.strategy, candidate_.mesh, shape});
    request.fault = &fault;
    const Row row = verify(subject_, request, baselines_).front();
    Verdict verdict{row.strategy,
                    candidate_.mesh.text(),
                    &mutation,
                    row.status == Status::mismatch || row.status == Status::error,
                    fmt::format("{}: {}", status_name(row.status), row.reason.value_or("")),
                    std::nullopt};
    if (const Comparison* comparison = row.status == Status::error ? nullptr : worst(row, true))
      verdict.figure = comparison->stats.relative_l2;
    return verdict;
  }

 private:
  const Subject& subject_;
  Baselines& baselines_;
  const Candidate& candidate_;
  std::string attention_;
  uint64_t seed_;
};

bool has_input(const ModelTraits& model, const std::string& input) {
  return input.empty() || model.cp_inputs.count(input) || model.batched_inputs.count(input);
}

}  // namespace

MutantRun run_mutants(const Subject& subject, const std::string& strategies, int ranks, const std::string& attention,
                      uint64_t seed, const std::function<void(const std::string&)>& progress) {
  MutantRun result;
  Baselines baselines(subject);
  const std::string list = strategies == "all" ? fmt::format("{}", fmt::join(mutated_strategies(), ",")) : strategies;
  for (const Candidate& candidate : parse_candidates(list, ranks, std::nullopt)) {
    BrokenRuns runs(subject, baselines, candidate, attention, seed);
    for (const bool mask : {false, true}) {
      std::vector<const Mutation*> chosen;
      for (const Mutant& mutant : all_mutants())
        if (mutant.strategy == candidate.strategy->name() && mutant.mutation->mask == mask &&
            mutant.mutation->least_ranks <= ranks && has_input(subject.spec.traits, mutant.mutation->input))
          chosen.push_back(mutant.mutation);
      if (chosen.empty()) continue;
      progress(fmt::format("{}[{}], unbroken", candidate.strategy->name(), candidate.mesh.text()));
      if (const auto reason = runs.cannot_run(mask)) {
        result.not_run.push_back(
            fmt::format("{}[{}]{}: {}", candidate.strategy->name(), candidate.mesh.text(), mask ? " with a mask" : "", *reason));
        continue;
      }
      for (const Mutation* mutation : chosen) {
        progress(fmt::format("{}/{}", candidate.strategy->name(), mutation->name));
        result.verdicts.push_back(runs.run(*mutation));
      }
    }
  }
  return result;
}

}  // namespace shardproof
