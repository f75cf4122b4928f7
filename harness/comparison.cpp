#include "harness/comparison.hpp"

#include <algorithm>

namespace shardproof {

Comparison judge_logic(Level level, std::string module, std::string output, const ErrorStats& stats, double limit) {
  Comparison result{true, level, std::move(module), std::move(output), stats, {}, {}, limit, false, {}};
  result.pass = stats.finite && stats.relative_l2 <= limit;
  return result;
}

Comparison judge_precision(Level level, std::string module, std::string output, const ErrorStats& stats, const ErrorStats& single,
                           double floor, double limit, std::optional<double> max_abs_limit) {
  Comparison result{false, level, std::move(module), std::move(output), stats, single.relative_l2, {}, limit, false, {}};
  const bool exact = single.relative_l2 == 0;  // e.g. integer inputs: nothing was rounded, so nothing may be
  result.ratio = exact && stats.relative_l2 == 0 ? 1.0 : stats.relative_l2 / std::max(single.relative_l2, floor);
  const double scale = stats.count > 0 ? stats.reference_norm / std::sqrt(static_cast<double>(stats.count)) : 0;
  const double largest = max_abs_limit.value_or(0) * std::max(single.max_abs, floor * scale * 4);
  const bool peak = !max_abs_limit || stats.max_abs <= largest;
  if (!peak) result.max_abs_limit = largest;
  result.pass = stats.finite && *result.ratio <= limit && (!exact || stats.relative_l2 == 0) && peak;
  return result;
}

}  // namespace shardproof
