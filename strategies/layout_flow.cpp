#include "strategies/layout_flow.hpp"

#include "core/error.hpp"
#include "core/shard.hpp"

#include <algorithm>

namespace shardproof {
namespace {

using Layouts = std::vector<FeatureLayout>;
using Names = std::vector<std::string>;

std::string listed(const std::set<std::string>& modules) {
  return modules.empty() ? "an input" : fmt::format("{}", fmt::join(modules, ", "));
}

Names in_order(std::initializer_list<std::set<std::string>> groups) {
  Names names;
  for (const auto& group : groups)
    for (const auto& name : group)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

class Flow {
 public:
  Flow(const Region& region, const Shardings& shardings)
      : region_(region), shardings_(shardings), widths_(feature_widths(region)) {}

  FlowResult run() {
    for (; step_ < region_.ops.size(); ++step_) {
      op_ = &region_.ops[step_];
      in_.clear();
      for (const auto& value : op_->in) in_.push_back(known_.at(value));
      const Layouts out = std::visit([this](const auto& kind) { return rule(kind); }, op_->kind);
      for (size_t i = 0; i < op_->out.size(); ++i) known_[op_->out[i]] = out[i];
    }
    return std::move(result_);
  }

 private:
  Layouts rule(const flow::Input& input) { return {FeatureLayout::whole(input.width)}; }

  Layouts rule(const flow::Linear& linear) {
    const FeatureLayout& x = result_.inputs[linear.module] = in_[0];
    const auto found = shardings_.find(linear.module);
    const Sharding sharding = found == shardings_.end() ? Sharding(Replicated{}) : found->second;
    if (x.partial)
      return fault("partial-sum", fmt::format("{} takes a partial sum from {}", linear.module, listed(x.makers())),
                   with(linear, x));
    if (const auto* colwise = std::get_if<Colwise>(&sharding)) return column_wise(linear, *colwise, x);
    if (const auto* rowwise = std::get_if<Rowwise>(&sharding)) return row_wise(linear, *rowwise, x);
    if (x.any_sharded())
      report("unreduced-output",
             fmt::format("the colwise output of {} reaches {}, which is whole on every rank, while {}", listed(x.makers(true)),
                         linear.module, x.text()),
             with(linear, x));
    return {FeatureLayout::whole(linear.out_features, {linear.module})};
  }

  Layouts column_wise(const flow::Linear& linear, const Colwise& colwise, const FeatureLayout& x) {
    if (x.any_sharded())
      return fault(
          "colwise-input",
          fmt::format("colwise {} takes its whole input, which is {} by {}", linear.module, x.text(), listed(x.makers(true))),
          with(linear, x));
    const auto blocks = blocks_of(linear, colwise.blocks, linear.out_features, "rows");
    return {blocks.empty() ? FeatureLayout::lost(linear.out_features) : FeatureLayout::sharded(blocks, linear.module)};
  }

  Layouts row_wise(const flow::Linear& linear, const Rowwise& rowwise, const FeatureLayout& x) {
    ++result_.all_reduces;
    const auto blocks = blocks_of(linear, rowwise.blocks, linear.in_features, "columns");
    if (blocks.empty()) return {FeatureLayout::lost(linear.out_features)};
    const FeatureLayout summed = FeatureLayout::whole(linear.out_features, {linear.module});
    const auto wrong = [&](const char* rule, const std::string& why) { return fault(rule, why, with(linear, x)); };
    if (x.unknown) return {summed};
    if (rowwise.split_input && x.any_sharded())
      return wrong("split-input", fmt::format("{} takes its slice of a whole input, which is already {} by {}", linear.module,
                                              x.text(), listed(x.makers(true))));
    if (rowwise.split_input) return {summed};
    if (!x.any_sharded())
      return wrong(
          "rowwise-input",
          fmt::format("rowwise {} takes a sharded input; its own, made by {}, is whole (rowwise_split_input takes a whole one)",
                      linear.module, listed(x.makers())));
    if (!x.all_sharded())
      return wrong("rowwise-input", fmt::format("rowwise {} takes a sharded input; its own is {}: no colwise entry shards {}",
                                                linear.module, x.text(), listed(x.makers(false))));
    if (x.sizes() != blocks)
      return wrong("packed-input", fmt::format("the columns of {} are cut in [{}], its input is {} by {}", linear.module,
                                               fmt::join(blocks, ", "), x.text(), listed(x.makers(true))));
    return {summed};
  }

  /// Sizes of a weight's blocks, none where they do not fit; what tp must divide is noted.
  std::vector<int64_t> blocks_of(const flow::Linear& linear, const std::vector<int64_t>& blocks, int64_t length,
                                 const char* dim) {
    std::vector<int64_t> sizes;
    try {
      sizes = block_sizes(length, blocks);
    } catch (const Error&) {
      report("blocks",
             fmt::format("blocks [{}] of {} do not divide its {} {}", fmt::join(blocks, ", "), linear.module, length, dim),
             {linear.module});
      return {};
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      result_.needs.push_back({linear.module,
                               sizes.size() == 1 ? fmt::format("its {} {}", length, dim)
                                                 : fmt::format("block {} (size {}) of its {} {}", i, sizes[i], length, dim),
                               sizes[i]});
    return sizes;
  }

  Layouts rule(const flow::Norm& norm) {
    const FeatureLayout& x = in_[0];
    if (x.partial) return nonlinear(x);
    if (!x.any_sharded() || norm.width == x.head_dim) return {x};
    return fault(
        "norm",
        fmt::format(
            "{} is taken over {} features, which are {} by {}: a rank sees its own share only, the sum of squares needs a "
            "reduction over tp (over head_dim it would be right)",
            op_->label, norm.width, x.text(), listed(x.makers(true))),
        in_order({x.makers(true)}));
  }

  Layouts rule(const flow::Split& split) {
    const FeatureLayout& x = in_[0];
    if (!x.unknown)
      if (const auto parts = split_layout(x, split.sizes)) return *parts;
    if (!x.unknown)
      report("packed-output",
             fmt::format("{} cuts the output of {} in [{}], on a rank that output is {}", op_->label, listed(x.makers(true)),
                         fmt::join(split.sizes, ", "), x.segments.size() == 1 ? "one contiguous share" : x.text()),
             in_order({x.makers(true)}));
    Layouts lost;
    for (const int64_t size : split.sizes) lost.push_back(FeatureLayout::lost(size));
    return lost;
  }

  Layouts rule(const flow::Concat&) {
    const bool partial = std::any_of(in_.begin(), in_.end(), [](const auto& x) { return x.partial; });
    const bool all = std::all_of(in_.begin(), in_.end(), [](const auto& x) { return x.partial; });
    const FeatureLayout joined = concatenated(in_);
    if (joined.unknown) return {FeatureLayout::lost(joined.width())};
    if (partial && !all)
      return fault("partial-sum", fmt::format("{} joins a partial sum with what is none", op_->label),
                   in_order({joined.makers()}));
    return {joined};
  }

  Layouts rule(const flow::JoinTokens&) { return together("partners"); }
  Layouts rule(const flow::SliceTokens&) { return {in_[0]}; }

  Layouts rule(const flow::Heads& heads) {
    FeatureLayout x = in_[0];
    x.head_dim = heads.head_dim;
    for (const Segment& segment : x.segments) {
      if (!segment.sharded) continue;
      if (segment.size % heads.head_dim != 0)
        return fault("heads",
                     fmt::format("a block of {} features of {} is no number of whole heads of {}", segment.size,
                                 listed(segment.makers), heads.head_dim),
                     in_order({segment.makers}));
      for (const auto& maker : segment.makers)
        result_.needs.push_back({maker, fmt::format("its {} heads of {}", segment.size / heads.head_dim, heads.head_dim),
                                 segment.size / heads.head_dim});
    }
    return {x};
  }

  Layouts rule(const flow::MergeHeads&) {
    FeatureLayout x = in_[0];
    x.head_dim = 0;
    return {x};
  }

  Layouts rule(const flow::Unary& unary) { return in_[0].partial && !unary.linear ? nonlinear(in_[0]) : Layouts{in_[0]}; }

  Layouts rule(const flow::Add&) { return together("partners"); }

  Layouts rule(const flow::Multiply&) {
    for (const size_t i : {size_t{0}, size_t{1}})  // a product of a sum with what all ranks hold alike is that sum
      if (in_[i].partial && in_[1 - i].is_whole()) return {in_[i]};
    if (in_[0].partial && in_[1].partial) return nonlinear(in_[0]);
    return together("partners");
  }

  Layouts rule(const flow::Attention&) {
    const FeatureLayout &q = in_[0], &k = in_[1], &v = in_[2];
    if (q.unknown || k.unknown || v.unknown) return {FeatureLayout::lost(q.width())};
    for (const FeatureLayout* x : {&q, &k, &v})
      if (x->partial) return nonlinear(*x);
    FeatureLayout grouped = k;  // several query heads share a key/value head: the same blocks, wider
    for (Segment& segment : grouped.segments) segment.size *= q.width() / k.width();
    if (!same_layout(k, v)) return disagree("partners", {k, v});
    if (!same_layout(q, grouped)) return disagree("partners", {q, k});
    FeatureLayout out = merged(merged(q, grouped), v);
    out.head_dim = q.head_dim;
    return {out};
  }

  Layouts rule(const flow::Contract&) {
    const Layouts both = together("partners");
    FeatureLayout out = FeatureLayout::whole(1, both[0].makers());
    out.unknown = both[0].unknown;
    out.partial = both[0].any_sharded();
    return {out};
  }

  Layouts rule(const flow::Output&) {
    const FeatureLayout& x = in_[0];
    if (x.partial)
      return fault("partial-sum", fmt::format("{} is a partial sum of {}", op_->label, listed(x.makers())),
                   in_order({x.makers()}));
    if (x.any_sharded())
      report("unreduced-output",
             fmt::format("the colwise output of {} reaches {} while {}: its shape changes", listed(x.makers(true)), op_->label,
                         x.text()),
             in_order({x.makers(true)}));
    return {};
  }

  /// Values that meet element by element: all alike, or a fault.
  Layouts together(const char* rule) {
    FeatureLayout joined = in_[0];
    for (size_t i = 1; i < in_.size(); ++i) {
      const FeatureLayout& x = in_[i];
      if (joined.unknown || x.unknown) return {FeatureLayout::lost(std::max(joined.width(), x.width()))};
      if (joined.partial != x.partial) {
        return fault(
            "partial-sum",
            fmt::format("{} joins a partial sum with what every rank holds, which would count once per rank", op_->label),
            in_order({joined.makers(), x.makers()}));
      }
      if (x.width() == 1 && x.is_whole()) continue;
      if (joined.width() == 1 && joined.is_whole())
        joined = x;
      else if (same_layout(joined, x))
        joined = merged(joined, x);
      else
        return disagree(rule, {joined, x});
    }
    return {joined};
  }

  Layouts disagree(const char* rule, const Layouts& both) {
    const FeatureLayout &a = both[0], &b = both[1];
    const std::string why =
        fmt::format("{} joins {} ({}) with {} ({})", op_->label, listed(a.makers()), a.text(), listed(b.makers()), b.text());
    const auto rule_name = !a.any_sharded() || !b.any_sharded() ? "sharded-meets-whole" : rule;
    return fault(rule_name, why, in_order({a.makers(false), b.makers(false), a.makers(true), b.makers(true)}));
  }

  Layouts nonlinear(const FeatureLayout& x) {
    return fault("partial-sum",
                 fmt::format("{} is not linear and is taken of a partial sum of {}", op_->label, listed(x.makers())),
                 in_order({x.makers()}));
  }

  Names with(const flow::Linear& linear, const FeatureLayout& x) const {
    return in_order({{linear.module}, x.makers(false), x.makers(true)});
  }

  void report(const std::string& rule, const std::string& why, Names involved) {
    result_.faults.push_back({rule, why, std::move(involved), step_});
  }

  Layouts fault(const std::string& rule, const std::string& why, Names involved) {
    report(rule, why, std::move(involved));
    Layouts lost;
    for (const auto& value : op_->out) lost.push_back(FeatureLayout::lost(widths_.at(value)));
    return lost;
  }

  const Region& region_;
  const Shardings& shardings_;
  std::map<flow::Value, int64_t> widths_;
  std::map<flow::Value, FeatureLayout> known_;
  const flow::Op* op_ = nullptr;
  size_t step_ = 0;
  Layouts in_;
  FlowResult result_;
};

}  // namespace

FlowResult follow_layouts(const Region& region, const Shardings& shardings) { return Flow(region, shardings).run(); }

}  // namespace shardproof
