#include "strategies/plan_check.hpp"

#include "core/error.hpp"
#include "core/plan_json.hpp"
#include "core/plan_match.hpp"
#include "core/shard.hpp"
#include "strategies/plan_repair.hpp"

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

/// Blocks of a region that the plan treats alike.
struct Variant {
  std::map<std::string, std::string> keys;  ///< by Linear, relative to the region; only those that are planned
  Shardings shardings;
  std::vector<int64_t> indices;
};

const flow::Linear* as_linear(const flow::Op& op) { return std::get_if<flow::Linear>(&op.kind); }

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> list;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (divides(number, divisor)) list.push_back(divisor);
  return list;
}

class Check {
 public:
  Check(const Dataflow& dataflow, const PlanEntries& plan, const std::vector<int64_t>& degrees)
      : dataflow_(dataflow), plan_(plan), meant_(plan), tree_(module_tree(dataflow)) {
    report_.degrees = degrees;
    for (const int64_t degree : degrees) {
      if (degree < 1) fail_input("plan", "tp {} is out of range; accepted: whole numbers from 1", degree);
      if (degree > 1) split_degrees_.push_back(degree);
    }
  }

  PlanReport run() {
    find();
    entries();
    repair();
    return std::move(report_);
  }

 private:
  void find() {
    keys();
    heads();
    for (const Region& region : dataflow_.regions)
      for (const Variant& variant : variants(region)) follow(region, variant);
    report_.legal_degrees = divisors(divisor_);
  }

  /// A key that is wrong is taken for the one that was probably meant, so that one slip is one fault.
  void keys() {
    for (const auto& [key, sharding] : plan_) {
      const KeyMatch match = match_key(key, tree_);
      if (!match.fault) continue;
      PlanFault fault{"key", key, sharding, {}, {}, *match.fault, {{key, std::nullopt}}};
      meant_.erase(key);
      if (match.near_key && meant_.emplace(*match.near_key, sharding).second) fault.fix.push_back({*match.near_key, sharding});
      add(std::move(fault));
    }
    for (const auto& [key, sharding] : meant_)
      for (const auto& module : match_key(key, tree_).modules) {
        const auto [other, first] = key_of_.emplace(module, key);
        if (first) continue;
        const auto why = fmt::format("names {}, which \"{}\" names too", module, other->second);
        add({"key", key, sharding, {module}, {}, why, {{key, std::nullopt}}});
        break;
      }
  }

  /// Every attention's heads and key/value heads, whatever the plan: a rank owns whole heads.
  void heads() {
    std::map<std::pair<int64_t, std::string>, std::vector<std::string>> counts;
    for (const Region& region : dataflow_.regions) {
      const auto widths = feature_widths(region);
      std::map<flow::Value, int64_t> head_dims;
      for (const flow::Op& op : region.ops) {
        if (const auto* heads = std::get_if<flow::Heads>(&op.kind))
          head_dims[op.out[0]] = heads->head_dim;
        else if (op.out.size() == 1 && !op.in.empty() && head_dims.count(op.in[0]))
          head_dims[op.out[0]] = head_dims[op.in[0]];
        const auto* attention = std::get_if<flow::Attention>(&op.kind);
        if (!attention || !head_dims.count(op.in[0])) continue;
        const int64_t head_dim = head_dims[op.in[0]], q = widths.at(op.in[0]) / head_dim, kv = widths.at(op.in[1]) / head_dim;
        counts[{q, "heads"}].push_back(module_glob(region, attention->module));
        if (kv != q) counts[{kv, "key/value heads"}].push_back(module_glob(region, attention->module));
      }
    }
    for (const auto& [count, modules] : counts) {
      divisor_ = std::gcd(divisor_, count.first);
      PlanFault fault{"heads", "", {}, {}, {}, "", {}};
      fault.why = fmt::format("{} {} of {} are not divisible by it; accepted: {}", count.first, count.second,
                              fmt::join(modules, ", "), fmt::join(divisors(count.first), ", "));
      for (const int64_t degree : split_degrees_)
        if (!divides(count.first, degree)) fault.degrees.push_back(degree);
      if (fault.degrees.empty()) continue;
      illegal_.insert(fault.degrees.begin(), fault.degrees.end());
      add(std::move(fault));
    }
  }

  std::vector<Variant> variants(const Region& region) const {
    std::map<std::map<std::string, std::string>, Variant> found;
    for (int64_t i = 0; i < region.count; ++i) {
      std::map<std::string, std::string> keys;
      for (const flow::Op& op : region.ops)
        if (const auto* linear = as_linear(op))
          if (const auto key = key_of_.find(module_name(region, linear->module, i)); key != key_of_.end())
            keys[linear->module] = key->second;
      Variant& variant = found[keys];
      variant.indices.push_back(i);
      variant.keys = keys;
      for (const auto& [module, key] : keys) variant.shardings[module] = meant_.at(key);
    }
    std::vector<Variant> list;
    for (auto& [keys, variant] : found) list.push_back(std::move(variant));
    return list;
  }

  void follow(const Region& region, const Variant& variant) {
    const FlowResult flow = follow_layouts(region, variant.shardings);
    needs(region, variant, flow.needs);
    if (flow.faults.empty()) return;
    const auto fixed = repaired(region, variant.shardings);
    unrepaired_ |= !fixed;
    std::map<std::string, PlanEdit> edits;  // by Linear
    if (fixed) edits = difference(region, variant, *fixed);
    tell(region, variant, flow, fixed ? *fixed : Shardings{}, edits);
    for (const auto& [module, edit] : edits) edits_.push_back(edit);
  }

  /// The faults, then those that show once the first are put right: what comes after a fault is not followed.
  void tell(const Region& region, const Variant& variant, FlowResult flow, const Shardings& fixed,
            std::map<std::string, PlanEdit> edits) {
    Shardings now = variant.shardings;
    for (bool more = true; more && !flow.faults.empty();) {
      std::set<std::string> right;
      for (const FlowFault& fault : flow.faults) {
        const auto module = blamed(variant, fault, edits);
        add(plan_fault(region, variant, fault, module, edits));
        if (module && edits.count(*module)) right.insert(*module);
      }
      for (const auto& module : right) {
        now.erase(module);
        if (const auto style = fixed.find(module); style != fixed.end()) now[module] = style->second;
        edits.erase(module);
      }
      more = !right.empty();
      flow = follow_layouts(region, now);
    }
  }

  /// The key that an entry for this Linear has, or would have.
  std::string key_for(const Region& region, const Variant& variant, const std::string& module) const {
    const auto key = variant.keys.find(module);
    if (key != variant.keys.end()) return key->second;
    const bool all = static_cast<int64_t>(variant.indices.size()) == region.count;
    return all ? module_glob(region, module) : module_name(region, module, variant.indices.front());
  }

  std::map<std::string, PlanEdit> difference(const Region& region, const Variant& variant, const Shardings& fixed) const {
    std::map<std::string, PlanEdit> edits;
    for (const auto& [module, style] : fixed) {
      const auto before = variant.shardings.find(module);
      if (before == variant.shardings.end() || before->second != style) edits[module] = {key_for(region, variant, module), style};
    }
    for (const auto& [module, style] : variant.shardings)
      if (!fixed.count(module)) edits[module] = {key_for(region, variant, module), std::nullopt};
    return edits;
  }

  /// The Linear that the repair changes; without a repair, the likeliest that is planned.
  static std::optional<std::string> blamed(const Variant& variant, const FlowFault& fault,
                                           const std::map<std::string, PlanEdit>& edits) {
    for (const auto& module : fault.involved)
      if (edits.count(module)) return module;
    for (const auto& module : fault.involved)
      if (variant.keys.count(module)) return module;
    return std::nullopt;
  }

  PlanFault plan_fault(const Region& region, const Variant& variant, const FlowFault& flow,
                       const std::optional<std::string>& module, const std::map<std::string, PlanEdit>& edits) const {
    const std::string where = region.name.empty() ? "" : fmt::format("in {}: ", module_glob(region, ""));
    PlanFault fault{flow.rule, "", {}, {}, split_degrees_, where + flow.why, {}};
    if (!module) return fault;
    fault.key = key_for(region, variant, *module);
    if (const auto style = meant_.find(fault.key); style != meant_.end()) fault.style = style->second;
    for (const int64_t i : variant.indices) fault.modules.push_back(module_name(region, *module, i));
    if (const auto edit = edits.find(*module); edit != edits.end()) fault.fix = {edit->second};
    return fault;
  }

  void needs(const Region& region, const Variant& variant, const std::vector<Need>& needs) {
    std::set<std::pair<std::string, std::string>> told;
    for (const Need& need : needs) {
      divisor_ = std::gcd(divisor_, need.count);
      const std::string key = key_for(region, variant, need.module);
      PlanFault fault{"divisibility", key, meant_.at(key), {}, {}, fmt::format("{} are not divisible by it", need.what), {}};
      for (const int64_t degree : split_degrees_)
        if (!divides(need.count, degree) && !illegal_.count(degree)) fault.degrees.push_back(degree);
      if (fault.degrees.empty() || !told.emplace(key, need.what).second) continue;
      for (const int64_t i : variant.indices) fault.modules.push_back(module_name(region, need.module, i));
      add(std::move(fault));
    }
  }

  void entries() {
    for (const auto& [key, sharding] : plan_) {
      EntryReport entry{key,
                        sharding,
                        {},
                        0,
                        0,
                        std::vector<std::vector<int64_t>>(report_.degrees.size()),
                        std::vector<int64_t>(report_.degrees.size()),
                        0,
                        !faulty_.count(key)};
      for (const auto& [module, owner] : key_of_)
        if (owner == key) entry.modules.push_back(module);
      report_.entries.push_back(std::move(entry));
    }
    report_.per_rank.assign(report_.degrees.size(), 0);
    for (const auto& [name, shape] : parameters(dataflow_))
      report_.parameters += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    for (int64_t& per_rank : report_.per_rank) per_rank = report_.parameters;
    for (const Region& region : dataflow_.regions)
      for (const flow::Op& op : region.ops)
        if (const auto* linear = as_linear(op))
          for (int64_t i = 0; i < region.count; ++i) count(*linear, module_name(region, linear->module, i));
  }

  void count(const flow::Linear& linear, const std::string& module) {
    const auto key = key_of_.find(module);
    if (key == key_of_.end() || !plan_.count(key->second)) return;
    EntryReport& entry =
        *std::find_if(report_.entries.begin(), report_.entries.end(), [&](const auto& e) { return e.key == key->second; });
    const bool colwise = std::holds_alternative<Colwise>(entry.sharding),
               rowwise = std::holds_alternative<Rowwise>(entry.sharding);
    entry.out_features = linear.out_features;
    entry.in_features = linear.in_features;
    entry.all_reduces += rowwise;
    report_.all_reduces += rowwise;
    const int64_t planned = linear.out_features * linear.in_features + (colwise && linear.bias ? linear.out_features : 0);
    for (size_t d = 0; d < report_.degrees.size(); ++d) {
      const int64_t degree = report_.degrees[d];
      if (!colwise && !rowwise) entry.local[d] = {linear.out_features, linear.in_features};
      if ((!colwise && !rowwise) || !divides(colwise ? linear.out_features : linear.in_features, degree)) continue;
      entry.local[d] = {linear.out_features / (colwise ? degree : 1), linear.in_features / (rowwise ? degree : 1)};
      entry.saved[d] += planned - planned / degree;
      report_.per_rank[d] -= planned - planned / degree;
    }
  }

  /// All fixes together, checked once more.
  void repair() {
    if (report_.faults.empty() || unrepaired_) return;
    PlanEntries fixed = meant_;
    for (const PlanFault& fault : report_.faults)  // of two entries for one module, one
      if (fault.rule == "key" && meant_.count(fault.key)) fixed.erase(fault.key);
    for (const PlanEdit& edit : edits_) apply(fixed, edit);
    if (fixed == plan_) return;
    Check again(dataflow_, fixed, {});
    again.find();
    if (again.report_.faults.empty()) report_.repaired = fixed;
  }

  static void apply(PlanEntries& plan, const PlanEdit& edit) {
    if (edit.style)
      plan[edit.key] = *edit.style;
    else
      plan.erase(edit.key);
  }

  void add(PlanFault fault) {
    faulty_.insert(fault.key);
    report_.faults.push_back(std::move(fault));
  }

  const Dataflow& dataflow_;
  const PlanEntries& plan_;
  PlanEntries meant_;  ///< with slips in keys put right
  ModuleTree tree_;
  std::vector<int64_t> split_degrees_;         ///< of those asked for, the ones that split anything
  std::set<int64_t> illegal_;                  ///< degrees that heads rule out
  std::map<std::string, std::string> key_of_;  ///< by planned module
  std::set<std::string> faulty_;
  std::vector<PlanEdit> edits_;
  bool unrepaired_ = false;
  int64_t divisor_ = 0;
  PlanReport report_;
};

std::string edit_text(const PlanEdit& edit) {
  if (!edit.style) return fmt::format("no entry \"{}\"", edit.key);
  return Json{{edit.key, style_json(*edit.style)}}.dump();
}

}  // namespace

PlanReport check_plan(const Dataflow& dataflow, const PlanEntries& plan, const std::vector<int64_t>& degrees) {
  return Check(dataflow, plan, degrees).run();
}

std::string fault_text(const PlanFault& fault) {
  std::string text;
  if (!fault.key.empty()) {
    text = fmt::format("\"{}\"", fault.key);
    text += fault.style ? ": " + style_json(*fault.style).dump() : " has no entry";
  }
  if (!fault.modules.empty()) {
    if (!text.empty()) text += " ";
    text += fault.modules.size() == 1 ? fmt::format("({})", fault.modules[0])
                                      : fmt::format("({} modules, {} …)", fault.modules.size(), fault.modules[0]);
  }
  if (fault.rule != "key") {
    const std::string degrees = fault.degrees.empty() ? "tp > 1" : fmt::format("tp {}", fmt::join(fault.degrees, ", "));
    text += (text.empty() ? "" : " at ") + degrees + ":";
  }
  text += " " + fault.why;
  std::string right;
  for (const PlanEdit& edit : fault.fix)
    if (edit.style || fault.fix.size() == 1) right += (right.empty() ? "" : " and ") + edit_text(edit);
  if (!right.empty()) text += fault.rule == "key" && fault.fix.size() > 1 ? "; did you mean " + right : "; right: " + right;
  return text;
}

}  // namespace shardproof
