#include "harness/row.hpp"

namespace shardproof {
namespace {

/// How much of its gate a comparison uses; what did not pass comes first.
double use(const Comparison& c) {
  const double figure = c.logic ? c.stats.relative_l2 : c.ratio.value_or(0);
  return (c.pass ? 0 : 1e6) + figure / c.limit;
}

}  // namespace

std::string status_name(Status status) {
  constexpr const char* names[] = {"pass", "mismatch", "failed", "error"};
  return names[static_cast<int>(status)];
}

const Comparison* worst(const Row& row, bool logic) {
  const Comparison* result = nullptr;
  for (const Comparison& c : row.comparisons)
    if (c.logic == logic && (c.level != Level::diffusers || !c.pass) && (!result || use(c) > use(*result))) result = &c;
  return result;
}

}  // namespace shardproof
