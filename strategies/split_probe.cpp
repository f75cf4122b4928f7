#include "strategies/split_probe.hpp"

#include "core/error.hpp"

namespace shardproof {

SplitProbe::SplitProbe(const std::map<std::string, Split>& splits, Cut cut, Probe& inner) : splits_(splits), cut_(std::move(cut)), inner_(inner) {
  for (const auto& [name, split] : splits) open_.insert(name);
}

Layout SplitProbe::seen(Layout layout) const {
  const auto whole = [&](Tokens tokens) { return !splits_.empty() && !split_.count(tokens); };
  const bool joint_whole = layout.tokens == Tokens::joint && (whole(Tokens::text) || whole(Tokens::image));
  if (joint_whole || (layout.tokens != Tokens::joint && whole(layout.tokens))) layout.tokens = Tokens::none;
  return layout;
}

void SplitProbe::input(const std::string& module, const char* slot, Tensor& value, const Layout& layout) {
  const std::string name = fmt::format("{}.{}", module, slot);
  if (open_.erase(name)) {
    value = cut_(name, value, splits_.at(name));
    split_.insert(layout.tokens);
  }
  inner_.input(module, slot, value, seen(layout));
}

void SplitProbe::output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) {
  inner_.output(module, slot, value, seen(layout));
}

void SplitProbe::check_all_split() const {
  if (!open_.empty()) fail_input("session", "the plan splits \"{}\", which the model never passes", *open_.begin());
}

}  // namespace shardproof
