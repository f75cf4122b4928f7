#include "harness/gates.hpp"

#include "core/dtype.hpp"

#include <cmath>

namespace shardproof {
namespace {

/// A row-wise product rounds each rank's partial sum and each of the N - 1 additions: theory, with 25 % room for partial sums
/// that are larger than their total (docs/numerics.md has what right code measured).
double reduced_sum_gate(int ranks) {
  double sum = 2;
  for (int k = 2; k <= ranks; ++k) sum += static_cast<double>(k) / ranks;
  return 1.25 * std::sqrt(sum);
}

double axis_gate(const Plan& plan, Axis axis, int degree, Part part) {
  if (degree == 1) return 1;
  switch (axis) {
    case Axis::tp: return part == Part::attention || part == Part::linear ? 1.02 : reduced_sum_gate(degree);
    case Axis::ring:
      if (!plan.convert_to_fp32) return 1.5;  // theory √2: every chunk's result is rounded
      return part == Part::attention ? 1.05 : 1.02;
    case Axis::ulysses: return 1.02;
    default: return 1;
  }
}

}  // namespace

std::string level_name(Level level) {
  constexpr const char* names[] = {"module", "block", "end_to_end", "diffusers"};
  return names[static_cast<int>(level)];
}

double error_floor(at::ScalarType dtype) { return dtype_eps(dtype) * (dtype == at::kFloat ? 16 : 1.0 / 16); }

double precision_gate(const Plan& plan, Part part, int64_t count) {
  double gate = 1;
  for (const auto& [axis, degree] : plan.mesh.degrees()) {
    const bool whole = part == Part::end_to_end;  // the largest gate of its parts
    gate *= whole ? std::max(axis_gate(plan, axis, degree, Part::block), axis_gate(plan, axis, degree, Part::attention)) : axis_gate(plan, axis, degree, part);
  }
  return gate + 4 / std::sqrt(static_cast<double>(count));
}

double single_gate(int64_t count) { return 1.5 + 4 / std::sqrt(static_cast<double>(count)); }

}  // namespace shardproof
