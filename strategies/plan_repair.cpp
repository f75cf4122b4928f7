#include "strategies/plan_repair.hpp"

#include "core/plan_json.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace shardproof {
namespace {

using Style = std::optional<Sharding>;  // nothing: no entry
struct Edit {
  std::string module;
  Style style;
};

const flow::Op* op_of(const Region& region, const std::string& module) {
  for (const flow::Op& op : region.ops)
    if (const auto* linear = std::get_if<flow::Linear>(&op.kind); linear && linear->module == module) return &op;
  return nullptr;
}

/// Steps that leave the features where they are.
bool keeps_order(const flow::Op& op) {
  return std::holds_alternative<flow::Unary>(op.kind) || std::holds_alternative<flow::SliceTokens>(op.kind) ||
         std::holds_alternative<flow::MergeHeads>(op.kind);
}

std::vector<int64_t> cuts_of(const Region& region, const std::map<flow::Value, int64_t>& widths, const flow::Value& value) {
  std::vector<int64_t> finest{widths.at(value)};
  for (const flow::Op& op : region.ops) {
    if (std::find(op.in.begin(), op.in.end(), value) == op.in.end()) continue;
    if (!keeps_order(op) && !std::holds_alternative<flow::Split>(op.kind)) continue;
    std::vector<int64_t> cuts;
    for (const auto& part : op.out)
      for (const int64_t size : cuts_of(region, widths, part)) cuts.push_back(size);
    if (cuts.size() > finest.size()) finest = cuts;
  }
  return finest;
}

std::vector<int64_t> joins_of(const Region& region, const std::map<flow::Value, int64_t>& widths, const flow::Value& value) {
  for (const flow::Op& op : region.ops) {
    if (op.out.size() != 1 || op.out[0] != value) continue;
    if (keeps_order(op)) return joins_of(region, widths, op.in[0]);
    if (!std::holds_alternative<flow::Concat>(op.kind)) break;
    std::vector<int64_t> parts;
    for (const auto& part : op.in)
      for (const int64_t size : joins_of(region, widths, part)) parts.push_back(size);
    return parts;
  }
  return {widths.at(value)};
}

/// One block is a contiguous cut.
std::vector<int64_t> packed(const std::vector<int64_t>& blocks) {
  return blocks.size() < 2 ? std::vector<int64_t>{} : lowest_terms(blocks);
}

/// Every way to plan one Linear, the most usual first.
std::vector<Style> styles_for(const Region& region, const FlowResult& flow, const std::string& module) {
  std::vector<Style> styles{Sharding(Colwise{packed(output_blocks(region, module))})};
  const FeatureLayout& input = flow.inputs.at(module);
  const bool known = !input.unknown && input.any_sharded() && input.all_sharded();
  if (known && packed(input.sizes()) != packed(input_blocks(region, module)))
    styles.push_back(Sharding(Rowwise{packed(input.sizes()), false}));
  styles.push_back(Sharding(Rowwise{packed(input_blocks(region, module)), false}));
  styles.push_back(Sharding(Rowwise{{}, true}));
  styles.push_back(std::nullopt);
  return styles;
}

Shardings with(Shardings shardings, const Edit& edit) {
  if (edit.style)
    shardings[edit.module] = *edit.style;
  else
    shardings.erase(edit.module);
  return shardings;
}

/// The first fault is gone, and none came before it: what comes after a fault is unknown, so numbers of faults mislead.
bool further(const FlowResult& a, const FlowResult& b) {
  if (a.faults.empty() || b.faults.empty()) return a.faults.empty();
  const size_t at = a.faults.front().step, was = b.faults.front().step;
  return at > was || (at == was && a.faults.size() < b.faults.size());
}

std::vector<Edit> candidates(const Region& region, const FlowResult& flow, const std::vector<FlowFault>& faults) {
  std::vector<Edit> edits;
  std::set<std::string> seen;
  for (const FlowFault& fault : faults)
    for (const auto& module : fault.involved)
      if (seen.insert(module).second)
        for (const Style& style : styles_for(region, flow, module)) edits.push_back({module, style});
  return edits;
}

class Search {
 public:
  Search(const Region& region, const Shardings& start) : region_(region), start_(start) {}

  std::optional<Shardings> run() {
    const FlowResult flow = follow_layouts(region_, start_);
    if (flow.faults.empty()) return std::nullopt;
    for (const Edit& edit : candidates(region_, flow, flow.faults)) offer(with(start_, edit));
    if (!best_)
      for (const bool forward : {true, false}) descend(forward);
    return best_ ? std::optional(std::get<3>(*best_)) : std::nullopt;
  }

 private:
  /// One edit at a time, for the first fault: of those that leave the fewest faults, the first.
  void descend(bool forward) {
    Shardings now = start_;
    for (int round = 0; round < 32; ++round) {
      const FlowResult flow = follow_layouts(region_, now);
      if (flow.faults.empty()) return offer(pruned(now));
      auto edits = candidates(region_, flow, {flow.faults.front()});
      if (!forward) std::reverse(edits.begin(), edits.end());
      std::optional<Shardings> next;
      size_t least = SIZE_MAX;
      for (const Edit& edit : edits) {
        const Shardings changed = with(now, edit);
        const FlowResult then = follow_layouts(region_, changed);
        if (!further(then, flow) || then.faults.size() >= least) continue;
        least = then.faults.size();
        next = changed;
      }
      if (!next) return;
      now = *next;
    }
  }

  /// Without the edits that turned out not to be needed.
  Shardings pruned(Shardings now) const {
    for (const auto& module : changed(now)) {
      const auto before = start_.find(module);
      const Shardings back = with(now, {module, before == start_.end() ? Style() : Style(before->second)});
      if (follow_layouts(region_, back).faults.empty()) now = back;
    }
    return now;
  }

  std::set<std::string> changed(const Shardings& now) const {
    std::set<std::string> modules;
    for (const auto& [module, style] : now)
      if (!start_.count(module) || start_.at(module) != style) modules.insert(module);
    for (const auto& [module, style] : start_)
      if (!now.count(module)) modules.insert(module);
    return modules;
  }

  void offer(const Shardings& shardings) {
    const FlowResult flow = follow_layouts(region_, shardings);
    if (!flow.faults.empty()) return;
    int64_t sharded = 0;
    for (const auto& [module, style] : shardings) {
      if (std::holds_alternative<Replicated>(style)) continue;
      const auto& linear = std::get<flow::Linear>(op_of(region_, module)->kind);
      sharded += linear.out_features * linear.in_features;
    }
    Found found{changed(shardings).size(), -sharded, flow.all_reduces, shardings};
    const auto order = [](const Found& f) { return std::tuple(std::get<0>(f), std::get<1>(f), std::get<2>(f)); };
    if (!best_ || order(found) < order(*best_)) best_ = found;
  }

  using Found = std::tuple<size_t, int64_t, int64_t, Shardings>;  // edits, minus the weights sharded, all-reduces
  const Region& region_;
  const Shardings& start_;
  std::optional<Found> best_;
};

}  // namespace

std::optional<Shardings> repaired(const Region& region, const Shardings& shardings) { return Search(region, shardings).run(); }

std::vector<int64_t> output_blocks(const Region& region, const std::string& module) {
  return cuts_of(region, feature_widths(region), op_of(region, module)->out[0]);
}

std::vector<int64_t> input_blocks(const Region& region, const std::string& module) {
  return joins_of(region, feature_widths(region), op_of(region, module)->in[0]);
}

}  // namespace shardproof
