#include "harness/verify.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "harness/judge.hpp"
#include "harness/localise.hpp"
#include "strategies/attention_choice.hpp"
#include "strategies/single.hpp"

#include <algorithm>
#include <chrono>
#include <map>

namespace shardproof {
namespace {

bool splits_prompts(const Strategy& strategy) {
  const auto axes = strategy.axes();
  return std::find(axes.begin(), axes.end(), Axis::dp) != axes.end();
}

/// With data parallel several prompts a rank, and one that does not divide: order and uneven shares are part of the claim.
Shape shape_of(const VerifyRequest& request, const Candidate& candidate) {
  Shape shape = request.shape;
  if (request.padded_mask) shape.batch = std::max<int64_t>(shape.batch, 2);  // one mask for all prompts would hide a mask that is not per prompt
  if (splits_prompts(*candidate.strategy)) shape.batch = std::max<int64_t>(shape.batch, 2 * candidate.mesh.world_size() - 1);
  return shape;
}

Request model_request(const VerifyRequest& request, const Shape& shape, at::ScalarType dtype) {
  return {shape.batch, shape.image_tokens(), shape.text_tokens, dtype, request.padded_mask};
}

/// One candidate on one input family: the fp64 rows' comparisons are kept for the other dtypes.
class CandidateRun {
 public:
  CandidateRun(const Subject& subject, const VerifyRequest& request, Baselines& baselines, const Candidate& candidate)
      : subject_(subject), request_(request), baselines_(baselines), candidate_(candidate), by_prompt_(splits_prompts(*candidate.strategy)) {
    shape_ = shape_of(request, candidate);
  }

  std::vector<Row> rows(const std::string& family) {
    std::vector<Row> result;
    std::map<int64_t, std::vector<Comparison>> logic;  // by steps
    for (const auto dtype : request_.dtypes)
      for (const int64_t steps : request_.steps) {
        request_.progress(fmt::format("{} {} {} {} {} steps", candidate_.strategy->name(), candidate_.mesh.text(), dtype_name(dtype), family, steps));
        Row row = empty_row(dtype, family, steps);
        const auto start = std::chrono::steady_clock::now();
        try {
          if (const auto reason = cannot_run(subject_, request_, candidate_, dtype)) {
            row.status = Status::failed;
            row.reason = reason;
          } else {
            if (!logic.count(steps)) logic[steps] = compare(at::kDouble, family, steps, nullptr);
            row.comparisons = logic[steps];
            auto measured = compare(dtype, family, steps, &row);
            if (dtype != at::kDouble) row.comparisons.insert(row.comparisons.end(), measured.begin(), measured.end());
            settle(row);
          }
        } catch (const Error& error) {
          row.status = Status::error;
          row.reason = error.what();
        } catch (const std::exception& error) {
          row.status = Status::error;
          row.reason = fmt::format("[verify] {}", error.what());
        }
        row.took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        result.push_back(std::move(row));
      }
    return result;
  }

 private:
  Row empty_row(at::ScalarType dtype, const std::string& family, int64_t steps) const {
    Row row;
    row.strategy = candidate_.strategy->name();
    row.mesh = candidate_.mesh;
    row.ranks = candidate_.mesh.world_size();
    row.dtype = dtype;
    row.family = family;
    row.steps = steps;
    row.shape = shape_;
    return row;
  }

  Request model_request(at::ScalarType dtype) const { return shardproof::model_request(request_, shape_, dtype); }

  /// All comparisons in one dtype; counters and times go to `row` where given.
  std::vector<Comparison> compare(at::ScalarType dtype, const std::string& family, int64_t steps, Row* row) {
    const Baseline& baseline = baselines_.get({dtype, family, shape_, request_.steps, request_.attention, request_.seed, request_.guidance,
                                               by_prompt_, request_.padded_mask},
                                              request_.progress);
    const RankRequest ranks{candidate_.strategy, candidate_.mesh, dtype, request_.attention, request_.fault, request_.full_load};
    const Plan plan = judged_plan();
    std::vector<Comparison> result;
    if (!by_prompt_) {
      auto& forced = forced_[{dtype, family}];
      if (forced.empty())
        for (const bool blocks : {true, false}) {
          const RunResult run = run_forced(subject_, ranks, baseline.inputs, baseline.single, blocks);
          const auto judged = judge_forced(baseline, plan, run, blocks);
          forced.insert(forced.end(), judged.begin(), judged.end());
        }
      result = forced;
    }
    const RunResult run = run_end_to_end(subject_, ranks, baseline.inputs, steps);
    const auto judged = judge_end_to_end(baseline, plan, run, steps, by_prompt_);
    result.insert(result.end(), judged.begin(), judged.end());
    if (candidate_.strategy == &single() && subject_.golden) {
      const auto golden = judge_diffusers(subject_, dtype, steps, request_.attention);
      result.insert(result.end(), golden.begin(), golden.end());
    }
    if (row) count(*row, run, dtype, steps);
    return result;
  }

  /// Counted traffic must be what the strategy promised, to the byte.
  void count(Row& row, const RunResult& run, at::ScalarType dtype, int64_t steps) const {
    row.step_s = run.step_s;
    for (int rank = 0; rank < row.ranks; ++rank) {
      const RankResult& mine = run.ranks[rank];
      const WireCost promised =
          candidate_.strategy->wire_cost(subject_.spec.traits, model_request(dtype), candidate_.mesh, rank) * std::max<int64_t>(steps, 1);
      row.counters.push_back({mine.traffic.bytes, mine.traffic.messages, mine.peak_tensor_bytes, mine.weight_bytes, mine.peak_key_value_bytes});
      row.wire_cost_bytes.push_back(promised.bytes);
      if (!(mine.traffic == promised) && !request_.fault)
        fail_runtime("wire_cost", "rank {} sent {}; {} promises {}", rank, mine.traffic.text(), row.strategy, promised.text());
    }
  }

  /// The strategy's plan; a backend that rounds partial results is judged as one that was asked to.
  Plan judged_plan() const {
    Plan plan = candidate_.strategy->plan(subject_.spec.traits, candidate_.mesh);
    plan.convert_to_fp32 = plan.convert_to_fp32 && make_attention_backend(request_.attention)->traits().fp32_partials;
    return plan;
  }

  void settle(Row& row) const {
    const auto failed = std::find_if(row.comparisons.begin(), row.comparisons.end(), [](const auto& c) { return !c.pass; });
    if (failed == row.comparisons.end()) return;
    row.status = Status::mismatch;
    row.first_failure = localise(row.comparisons, judged_plan());
    row.reason = failure_text(*row.first_failure, row.comparisons);
  }

  const Subject& subject_;
  const VerifyRequest& request_;
  Baselines& baselines_;
  const Candidate& candidate_;
  bool by_prompt_;
  Shape shape_;
  std::map<std::pair<at::ScalarType, std::string>, std::vector<Comparison>> forced_;
};

}  // namespace

std::optional<std::string> cannot_run(const Subject& subject, const VerifyRequest& request, const Candidate& candidate, at::ScalarType dtype) {
  const ModelTraits& model = subject.spec.traits;
  if (request.padded_mask && !model.optional_inputs.count("encoder_hidden_states_mask"))
    return fmt::format("[{}] the model takes no key-padding mask", model.family);
  const auto backend = make_attention_backend(request.attention);
  if (const auto reason = attention_unsupported(*candidate.strategy, model, request.attention, backend->traits(), dtype, request.padded_mask))
    return fmt::format("[{}] {}", candidate.strategy->name(), *reason);
  return candidate.strategy->unsupported(subject.spec.traits, model_request(request, shape_of(request, candidate), dtype), candidate.mesh);
}

std::vector<Row> verify(const Subject& subject, const VerifyRequest& request) {
  Baselines baselines(subject);
  return verify(subject, request, baselines);
}

std::vector<Row> verify(const Subject& subject, const VerifyRequest& request, Baselines& baselines) {
  std::vector<Row> rows;
  for (const Candidate& candidate : request.candidates) {
    CandidateRun run(subject, request, baselines, candidate);
    for (const auto& family : request.families)
      for (Row& row : run.rows(family)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace shardproof
