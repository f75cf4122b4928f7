#include "harness/judge.hpp"

#include "core/error.hpp"
#include "strategies/single.hpp"

namespace shardproof {
namespace {

Part part_of(const std::string& module, const Plan& plan, bool block) {
  if (block) return Part::block;
  if (module.ends_with(".attn")) return Part::attention;
  return std::holds_alternative<Rowwise>(plan_entry(plan, module).sharding) ? Part::rowwise : Part::linear;
}

bool has_axis(const Plan& plan, Axis axis) { return plan.mesh.degree(axis) > 1; }

/// Of several replicas of a value the one with the largest error.
ErrorStats worst_replica(const std::vector<Tensor>& replicas, const Tensor& reference) {
  ErrorStats result;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const ErrorStats stats = error_stats(replicas[i], reference);
    if (i == 0 || !stats.finite || stats.relative_l2 > result.relative_l2) result = stats;
  }
  return result;
}

/// The rank whose part is furthest from its place in the reference.
int worst_rank(const Placed& placed, const std::vector<Tensor>& parts, const Layout& layout, const Tensor& reference) {
  int result = 0;
  double largest = -1;
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    const ErrorStats stats = error_stats(parts[rank], placed.cut(reference, layout, rank));
    if (stats.relative_l2 > largest) {
      largest = stats.relative_l2;
      result = rank;
    }
  }
  return result;
}

/// Largest allowed max-abs over a single device's. Of 8004 rows of right code two left 2, with 2.09 (docs/numerics.md).
constexpr double max_abs_gate = 3;

Comparison judge(const Baseline& baseline, const Plan& plan, Level level, Part part, const std::string& module, const std::string& slot,
                 const ErrorStats& stats, const ErrorStats& single, const ErrorStats& aten) {
  if (baseline.dtype == at::kDouble) return judge_logic(level, module, slot, stats, logic_gate);
  const double floor = error_floor(baseline.dtype);
  if (plan.mesh.world_size() == 1) return judge_precision(level, module, slot, stats, aten, floor, single_gate(stats.count), {});
  // Partial sums and partial results that are rounded first have larger worst elements than one device.
  const bool rounded_first = has_axis(plan, Axis::tp) || !plan.convert_to_fp32;
  const std::optional<double> max_abs = rounded_first ? std::nullopt : std::optional(max_abs_gate);
  return judge_precision(level, module, slot, stats, single, floor, precision_gate(plan, part, stats.count), max_abs);
}

Tensor golden_run(const Subject& subject, const NamedTensors& inputs, at::ScalarType dtype, int64_t steps, const std::string& attention) {
  const RankRequest one{&single(), MeshShape(), dtype, attention, nullptr};
  return run_end_to_end(subject, one, to_dtype(inputs, dtype), steps).ranks[0].output;
}

/// The first rank whose output is not rank 0's bit for bit, or 0.
int odd_rank_out(const RunResult& run) {
  for (size_t rank = 1; rank < run.ranks.size(); ++rank)
    if (!at::equal(run.ranks[rank].output, run.ranks[0].output)) return static_cast<int>(rank);
  return 0;
}

}  // namespace

std::vector<Comparison> judge_forced(const Baseline& baseline, const Plan& plan, const RunResult& run, bool blocks) {
  const Placed placed(plan, baseline.shape.text_tokens, baseline.shape.image_tokens());
  std::vector<Comparison> result;
  for (const auto& module : run.ranks[0].trace.order) {
    for (const auto& [slot, layout] : run.ranks[0].trace.modules.at(module).layouts) {
      std::vector<Tensor> parts;
      for (const RankResult& rank : run.ranks) parts.push_back(rank.trace.modules.at(module).outputs.at(slot));
      const Tensor& reference = baseline.reference.at(module).at(slot);
      const ErrorStats stats = worst_replica(placed.assemble(parts, layout), reference);
      result.push_back(judge(baseline, plan, blocks ? Level::block : Level::module, part_of(module, plan, blocks), module, slot, stats,
                             baseline.single_errors.at(module).at(slot), baseline.aten_errors.at(module).at(slot)));
      if (!result.back().pass) result.back().rank = worst_rank(placed, parts, layout, reference);
    }
  }
  return result;
}

std::vector<Comparison> judge_end_to_end(const Baseline& baseline, const Plan& plan, const RunResult& run, int64_t steps, bool by_prompt) {
  const int rank = odd_rank_out(run);
  const Tensor &output = run.ranks[rank].output, &reference = baseline.reference_output.at(steps);
  const std::string slot = steps == 0 ? "output" : "latents";
  std::vector<Comparison> result{judge(baseline, plan, Level::end_to_end, Part::end_to_end, "model", slot, error_stats(output, reference),
                                       error_stats(baseline.single_output.at(steps), reference),
                                       error_stats(baseline.aten_output.at(steps), reference))};
  if (rank != 0) {  // near is not enough: every rank must end with the same bits
    result[0].pass = false;
    result[0].rank = rank;
  }
  if (by_prompt) {
    const ErrorStats against_single = error_stats(output, baseline.single_output.at(steps));
    result.push_back(judge_logic(Level::end_to_end, "model", slot + " against single runs, bit for bit", against_single, 0));
    result.back().logic = baseline.dtype == at::kDouble;
    if (!result.back().logic) result.back().ratio = result.back().pass ? 1.0 : std::numeric_limits<double>::infinity();
    if (!result.back().logic) result.back().limit = 1.0;
  }
  return result;
}

std::vector<Comparison> judge_diffusers(const Subject& subject, at::ScalarType dtype, int64_t steps, const std::string& attention) {
  if (dtype != at::kDouble && dtype != at::kFloat) return {};
  const Golden& golden = *subject.golden;
  const double limit = dtype == at::kDouble ? diffusers_fp64_gate : diffusers_fp32_gate;
  const std::string expected = dtype == at::kDouble ? "output_fp64" : "output_fp32";
  std::vector<Comparison> result;
  const auto add = [&](const std::string& who, const Tensor& value, const std::string& name) {
    result.push_back(judge_logic(Level::diffusers, who, name, error_stats(value, golden.outputs.at(name)), limit));
  };
  const auto oracle = subject.oracle(dtype, dtype);
  add("native", golden_run(subject, golden.inputs, dtype, 0, attention), expected);
  add("reference", oracle->forward(to_dtype(golden.inputs, dtype)), expected);
  NamedTensors masked = golden.inputs;
  masked["encoder_hidden_states_mask"] = golden.mask;
  if (make_attention_backend(attention)->traits().mask)
    add("native", golden_run(subject, masked, dtype, 0, attention), expected + "_masked");
  add("reference", oracle->forward(to_dtype(masked, dtype)), expected + "_masked");
  const std::string latents = fmt::format("latents_fp64_steps{}", steps);
  if (dtype == at::kDouble && golden.outputs.count(latents)) {
    add("native", golden_run(subject, golden.inputs, dtype, steps, attention), latents);
    add("reference", oracle->denoise(golden.inputs, steps), latents);
  }
  return result;
}

}  // namespace shardproof
