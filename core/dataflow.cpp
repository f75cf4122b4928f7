#include "core/dataflow.hpp"

#include "core/error.hpp"

#include <numeric>

namespace shardproof {
namespace {

std::string replaced(std::string text, const std::string& with) {
  if (const size_t at = text.find("{i}"); at != text.npos) text.replace(at, 3, with);
  return text;
}

std::string joined(const std::string& region, const std::string& module) {
  return region.empty() || module.empty() ? region + module : region + "." + module;
}

/// Widths of a region's values, step by step.
class Widths {
 public:
  explicit Widths(const Region& region) : region_(region) {}

  void visit(const flow::Op& op) {
    op_ = &op;
    in_.clear();
    for (const auto& value : op.in) {
      const auto found = known_.find(value);
      if (found == known_.end()) wrong(fmt::format("value \"{}\" is used before it is made", value));
      in_.push_back(found->second);
    }
    const std::vector<int64_t> out = std::visit([this](const auto& kind) { return widths(kind); }, op.kind);
    if (out.size() != op.out.size()) wrong(fmt::format("makes {} values, not {}", out.size(), op.out.size()));
    for (size_t i = 0; i < out.size(); ++i)
      if (!known_.emplace(op.out[i], out[i]).second) wrong(fmt::format("value \"{}\" is made twice", op.out[i]));
  }

  std::map<flow::Value, int64_t> take() { return std::move(known_); }

 private:
  using List = std::vector<int64_t>;

  [[noreturn]] void wrong(const std::string& what) const {
    fail_input("dataflow", "{}: {}: {}", region_.name.empty() ? "the model" : region_.name, op_->label, what);
  }
  void takes(size_t count) const {
    if (in_.size() != count) wrong(fmt::format("takes {} values, not {}", count, in_.size()));
  }
  void has_width(int64_t expected) const {
    takes(1);
    if (in_[0] != expected) wrong(fmt::format("its input has {} features, not {}", in_[0], expected));
  }
  void all_alike() const {
    for (const int64_t width : in_)
      if (width != in_[0]) wrong(fmt::format("joins {} and {} features", in_[0], width));
  }
  List same() const {
    takes(1);
    return in_;
  }
  List partners() const {
    takes(2);
    if (in_[0] != in_[1] && in_[0] != 1 && in_[1] != 1) wrong(fmt::format("joins {} and {} features", in_[0], in_[1]));
    return {std::max(in_[0], in_[1])};
  }

  List widths(const flow::Input& input) const { return takes(0), List{input.width}; }
  List widths(const flow::Linear& linear) const { return has_width(linear.in_features), List{linear.out_features}; }
  List widths(const flow::Norm& norm) const {
    takes(1);
    if (norm.width < 1 || in_[0] % norm.width != 0) wrong(fmt::format("norms {} of {} features", norm.width, in_[0]));
    return in_;
  }
  List widths(const flow::Split& split) const {
    has_width(std::accumulate(split.sizes.begin(), split.sizes.end(), int64_t{0}));
    return split.sizes;
  }
  List widths(const flow::Concat&) const { return {std::accumulate(in_.begin(), in_.end(), int64_t{0})}; }
  List widths(const flow::JoinTokens&) const {
    if (in_.empty()) wrong("joins nothing");
    all_alike();
    return {in_[0]};
  }
  List widths(const flow::SliceTokens&) const { return same(); }
  List widths(const flow::Heads& heads) const {
    takes(1);
    if (heads.head_dim < 1 || in_[0] % heads.head_dim != 0)
      wrong(fmt::format("{} features are no whole heads of {}", in_[0], heads.head_dim));
    return in_;
  }
  List widths(const flow::MergeHeads&) const { return same(); }
  List widths(const flow::Unary&) const { return same(); }
  List widths(const flow::Add&) const { return partners(); }
  List widths(const flow::Multiply&) const { return partners(); }
  List widths(const flow::Attention&) const {
    takes(3);
    if (in_[1] != in_[2] || in_[0] % in_[1] != 0)
      wrong(fmt::format("query, key, value of {}, {}, {} features", in_[0], in_[1], in_[2]));
    return {in_[0]};
  }
  List widths(const flow::Contract&) const {
    takes(2);
    all_alike();
    return {1};
  }
  List widths(const flow::Output&) const { return takes(1), List{}; }

  const Region& region_;
  const flow::Op* op_ = nullptr;
  List in_;
  std::map<flow::Value, int64_t> known_;
};

}  // namespace

std::string module_name(const Region& region, const std::string& module, int64_t index) {
  return joined(replaced(region.name, std::to_string(index)), module);
}

std::string module_glob(const Region& region, const std::string& module) { return joined(replaced(region.name, "*"), module); }

std::map<flow::Value, int64_t> feature_widths(const Region& region) {
  Widths widths(region);
  for (const flow::Op& op : region.ops) widths.visit(op);
  return widths.take();
}

std::map<std::string, std::vector<int64_t>> parameters(const Dataflow& dataflow) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Region& region : dataflow.regions)
    for (int64_t i = 0; i < region.count; ++i)
      for (const flow::Op& op : region.ops) {
        if (const auto* linear = std::get_if<flow::Linear>(&op.kind)) {
          const auto name = module_name(region, linear->module, i);
          shapes[name + ".weight"] = {linear->out_features, linear->in_features};
          if (linear->bias) shapes[name + ".bias"] = {linear->out_features};
        }
        if (const auto* norm = std::get_if<flow::Norm>(&op.kind); norm && !norm->module.empty())
          shapes[module_name(region, norm->module, i) + ".weight"] = {norm->width};
      }
  return shapes;
}

}  // namespace shardproof
