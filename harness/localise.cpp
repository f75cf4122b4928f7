#include "harness/localise.hpp"

#include <fmt/format.h>

#include <regex>
#include <set>

namespace shardproof {
namespace {

/// Inner modules first: they say most exactly where. Within a level the order is that of the run.
const Comparison* first_failure(const std::vector<Comparison>& comparisons) {
  for (const Level level : {Level::module, Level::block, Level::end_to_end, Level::diffusers})
    for (const Comparison& c : comparisons)
      if (!c.pass && c.level == level) return &c;
  return nullptr;
}

/// Entries for the module itself or, for a block or an attention, for the modules inside it.
std::vector<std::string> entries_touching(const std::string& module, const Plan& plan) {
  std::set<std::string> found;
  const std::string general = std::regex_replace(module, std::regex("[0-9]+"), "*");  // transformer_blocks.0.attn → transformer_blocks.*.attn
  for (const auto& [glob, sharding] : plan.weights)
    if (glob_matches(glob, module) || glob.starts_with(general + ".")) found.insert(fmt::format("{}: {}", glob, sharding_text(sharding)));
  for (const auto& [input, split] : plan.inputs)
    if (module.ends_with(".attn") || module == "model") found.insert(fmt::format("input {}: split on dim {}", input, split.dim));
  return {found.begin(), found.end()};
}

}  // namespace

FirstFailure localise(const std::vector<Comparison>& comparisons, const Plan& plan) {
  const Comparison* first = first_failure(comparisons);
  if (!first) return {};
  FirstFailure result{first->module, first->rank, entries_touching(first->module, plan), std::nullopt};
  const bool only_end_to_end = first->level == Level::end_to_end;
  if (only_end_to_end && plan.mesh.world_size() > 1)
    result.hint = "every module agrees on given inputs: look at what lies between them, i.e. the split of the inputs, the gather of the "
                  "output, and the latents each rank starts from";
  if (first->level == Level::block)
    result.hint = "every module inside agrees on given inputs: look at the order in which the block joins them (packed blocks, text and "
                  "image order, position ids)";
  return result;
}

std::string failure_text(const FirstFailure& failure, const std::vector<Comparison>& comparisons) {
  const Comparison* first = first_failure(comparisons);
  const double figure = first->logic ? first->stats.relative_l2 : first->ratio.value_or(0);
  std::string text = fmt::format("{} ({}): {} {:.2e} over {:.2e}", failure.module, first->output, first->logic ? "error" : "ratio", figure,
                                 first->limit);
  if (!first->logic && figure <= first->limit && first->max_abs_limit)
    text = fmt::format("{} ({}): largest absolute error {:.2e} over {:.2e}, three times a single device's", failure.module, first->output,
                       first->stats.max_abs, *first->max_abs_limit);
  if (failure.rank) text += fmt::format(" on rank {}", *failure.rank);
  if (!failure.plan_entries.empty()) text += fmt::format("; plan: {}", fmt::join(failure.plan_entries, ", "));
  return text;
}

}  // namespace shardproof
