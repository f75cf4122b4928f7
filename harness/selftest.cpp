#include "harness/selftest.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"

#include <algorithm>

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

namespace {

void note_nearest(FalseAlarms& result, const Row& row) {
  for (const Comparison& c : row.comparisons) {
    const double figure = c.logic ? c.stats.relative_l2 : c.ratio.value_or(0);
    auto& entry = result.nearest[fmt::format("{} {} {}", row.strategy, c.logic ? "logic" : dtype_name(row.dtype), level_name(c.level))];
    entry = std::max(entry, figure / c.limit);
  }
}

}  // namespace

FalseAlarms run_right_code(const std::string& model, int64_t seeds, const std::string& attention,
                           const std::function<void(const std::string&)>& progress) {
  FalseAlarms result;
  const auto& families = input_families();
  const int rank_counts[] = {2, 3, 4};
  for (int64_t seed = 0; seed < seeds; ++seed) {
    const int ranks = rank_counts[seed % 3];
    progress(fmt::format("right code, seed {} of {}", seed, seeds));
    const Subject subject = load_subject(model, static_cast<uint64_t>(seed));
    VerifyRequest request;
    request.candidates = parse_candidates("all", ranks, std::nullopt);
    request.dtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
    request.families = {families[(seed / 3) % families.size()]};
    request.steps = {1};
    request.shape = {1, 3, 4, 12};
    request.attention = attention;
    request.seed = static_cast<uint64_t>(seed);
    for (const Row& row : verify(subject, request)) {
      ++result.rows;
      note_nearest(result, row);
      if (row.status != Status::pass && row.status != Status::failed)
        result.alarms.push_back(fmt::format("seed {} {}[{}] {} {}: {}", seed, row.strategy, row.mesh.text(), dtype_name(row.dtype), row.family,
                                            row.reason.value_or("")));
    }
    ++result.seeds;
  }
  return result;
}

}  // namespace shardproof
