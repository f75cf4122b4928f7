#pragma once

#include "core/plan.hpp"
#include "models/probe.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>

namespace shardproof {

/// Cuts what a plan splits inside a model: the input of a module, where diffusers' `_cp_plan` names a module rather than
/// the model's own input. Until then that stream of tokens is whole on every rank, which the inner probe is told.
class SplitProbe final : public Probe {
 public:
  using Cut = std::function<Tensor(const std::string& name, const Tensor& whole, const Split& split)>;

  /// `splits` by module and slot, and `inner`, outlive it.
  SplitProbe(const std::map<std::string, Split>& splits, Cut cut, Probe& inner);

  void input(const std::string& module, const char* slot, Tensor& value, const Layout& layout) override;
  void output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) override;

  /// Input Error that names a split the model never came to: its tokens would have stayed whole.
  void check_all_split() const;

 private:
  Layout seen(Layout layout) const;

  const std::map<std::string, Split>& splits_;
  Cut cut_;
  Probe& inner_;
  std::set<std::string> open_;  ///< splits that have not happened
  std::set<Tokens> split_;      ///< streams that have been cut
};

}  // namespace shardproof
