#include "harness/selftest.hpp"

#include "core/error.hpp"
#include "harness/meshes.hpp"

namespace shardproof {
namespace {

/// The hardest family that all faults show in: logits differ along the tokens and are mostly negative.
VerifyRequest request_for(const Candidate& candidate, const std::string& attention, uint64_t seed) {
  VerifyRequest request;
  request.candidates = {candidate};
  request.dtypes = {at::kDouble};
  request.families = {"negative_logits"};
  request.steps = {1};
  request.attention = attention;
  request.seed = seed;
  return request;
}

}  // namespace

std::vector<Verdict> run_mutants(const Subject& subject, const std::string& strategies, int ranks, const std::string& attention, uint64_t seed,
                                 const std::function<void(const std::string&)>& progress) {
  std::vector<Verdict> verdicts;
  for (const Candidate& candidate : parse_candidates(strategies, ranks, std::nullopt)) {
    VerifyRequest request = request_for(candidate, attention, seed);
    const Row right = verify(subject, request).front();
    if (right.status != Status::pass)
      fail_runtime("selftest", "{}[{}] does not pass unbroken: {}", right.strategy, candidate.mesh.text(), right.reason.value_or(""));
    for (const Mutant& mutant : all_mutants()) {
      if (mutant.strategy != candidate.strategy->name()) continue;
      progress(fmt::format("{}/{}", mutant.strategy, mutant.name));
      request.fault = &mutant.injection;
      const Row row = verify(subject, request).front();
      const bool killed = row.status == Status::mismatch || row.status == Status::error;
      verdicts.push_back({&mutant, candidate.mesh.text(), killed, fmt::format("{}: {}", status_name(row.status), row.reason.value_or(""))});
    }
  }
  return verdicts;
}

}  // namespace shardproof
