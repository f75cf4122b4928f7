#include "kernels/error_stats.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardproof {
namespace {

constexpr int64_t block = 4096;
constexpr double infinity = std::numeric_limits<double>::infinity();

double quotient(double numerator, double denominator) {
  return denominator == 0 ? (numerator == 0 ? 0.0 : infinity) : numerator / denominator;
}

/// Neumaier's compensated sum (1974): the error does not grow with the number of terms.
struct Sum {
  double total = 0, lost = 0;
  KOKKOS_INLINE_FUNCTION void add(double value) {
    const double next = total + value;
    lost += std::abs(total) >= std::abs(value) ? (total - next) + value : (value - next) + total;
    total = next;
  }
  KOKKOS_INLINE_FUNCTION double value() const { return total + lost; }
};

/// What the first pass finds in one block, and then in all.
struct Extremes {
  double max_x = 0, max_ref = 0, max_abs = 0, max_rel = 0, low = infinity, high = -infinity;
  int64_t worst = 0, not_finite = -1;  ///< flat indices
};

KOKKOS_INLINE_FUNCTION void scan(Extremes& e, double x, double ref, int64_t index) {
  if (!std::isfinite(x) || !std::isfinite(ref)) {
    if (e.not_finite < 0) e.not_finite = index;
    return;
  }
  const double error = std::abs(x - ref), size = std::abs(ref);
  if (error > e.max_abs) {
    e.max_abs = error;
    e.worst = index;
  }
  const double relative = error == 0 ? 0 : error / size;  // x/0 is infinity
  e.max_rel = relative > e.max_rel ? relative : e.max_rel;
  e.max_x = std::abs(x) > e.max_x ? std::abs(x) : e.max_x;
  e.max_ref = size > e.max_ref ? size : e.max_ref;
  e.low = ref < e.low ? ref : e.low;
  e.high = ref > e.high ? ref : e.high;
}

void join(Extremes& into, const Extremes& next) {
  if (into.not_finite < 0) into.not_finite = next.not_finite;
  if (next.max_abs > into.max_abs) {
    into.max_abs = next.max_abs;
    into.worst = next.worst;
  }
  into.max_rel = std::max(into.max_rel, next.max_rel);
  into.max_x = std::max(into.max_x, next.max_x);
  into.max_ref = std::max(into.max_ref, next.max_ref);
  into.low = std::min(into.low, next.low);
  into.high = std::max(into.high, next.high);
}

/// Squares scaled by the largest value, which can neither overflow nor vanish.
struct Squares {
  Sum error, x, ref, product;
};

/// Calls add(state, x, ref, index) for each element, a fresh state per block; returns the states in order.
template <class State, class Add>
std::vector<State> blocks(const char* label, const Tensor& x, const Tensor& ref, Add add) {
  const auto xs = flat_view<const double>(x), refs = flat_view<const double>(ref);
  const int64_t count = x.numel();
  std::vector<State> states((count + block - 1) / block);
  State* data = states.data();
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, states.size()), KOKKOS_LAMBDA(int64_t part) {
        State state;
        const int64_t end = count < (part + 1) * block ? count : (part + 1) * block;
        for (int64_t i = part * block; i < end; ++i) add(state, xs(i), refs(i), i);
        data[part] = state;
      });
  return states;
}

Extremes extremes(const Tensor& x, const Tensor& ref) {
  Extremes all;
  for (const auto& part : blocks<Extremes>("shardproof::error_stats::extremes", x, ref,
                                           [](Extremes&e, double a, double b, int64_t i) { scan(e, a, b, i); }))
    join(all, part);
  return all;
}

struct Norms {
  double error = 0, x = 0, ref = 0, product = 0;  ///< of values divided by max_abs, max_x, max_ref
};

Norms norms(const Tensor& x, const Tensor& ref, const Extremes& e) {
  const double de = e.max_abs ? e.max_abs : 1, dx = e.max_x ? e.max_x : 1, dr = e.max_ref ? e.max_ref : 1;
  Squares all;
  for (const auto& part :
       blocks<Squares>("shardproof::error_stats::squares", x, ref, [=](Squares&s, double a, double b, int64_t) {
         const double error = (a - b) / de, xs = a / dx, refs = b / dr;
         s.error.add(error * error);
         s.x.add(xs * xs);
         s.ref.add(refs * refs);
         s.product.add(xs * refs);
       })) {
    all.error.add(part.error.value());
    all.x.add(part.x.value());
    all.ref.add(part.ref.value());
    all.product.add(part.product.value());
  }
  return {std::sqrt(all.error.value()), std::sqrt(all.x.value()), std::sqrt(all.ref.value()), all.product.value()};
}

std::vector<int64_t> unravel(int64_t flat, at::IntArrayRef shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return index;
}

ErrorStats not_finite(const Tensor& x, int64_t index) {
  ErrorStats stats;
  stats.relative_l2 = stats.max_abs = stats.max_rel = infinity;
  stats.cosine = 0;
  stats.psnr_db = -infinity;
  stats.worst_index = unravel(index, x.sizes());
  stats.count = x.numel();
  stats.finite = false;
  return stats;
}

}  // namespace

ErrorStats error_stats(const Tensor& x, const Tensor& reference) {
  if (!x.defined() || !reference.defined()) fail_input("error_stats", "an undefined tensor; two tensors are needed");
  if (x.sizes() != reference.sizes())
    fail_input("error_stats", "shapes {} and {} differ", shape_text(x.sizes()), shape_text(reference.sizes()));
  if (x.is_complex() || reference.is_complex()) fail_input("error_stats", "a complex tensor; a real dtype is needed");
  ErrorStats stats;
  stats.count = x.numel();
  stats.psnr_db = infinity;
  if (stats.count == 0) return stats;
  ensure_kokkos();
  const Tensor a = x.to(at::kCPU, at::kDouble).contiguous(), b = reference.to(at::kCPU, at::kDouble).contiguous();
  const Extremes e = extremes(a, b);
  if (e.not_finite >= 0) return not_finite(a, e.not_finite);
  const Norms n = norms(a, b, e);
  stats.relative_l2 = quotient(e.max_abs * n.error, e.max_ref * n.ref);
  stats.max_abs = e.max_abs;
  stats.max_rel = e.max_rel;
  stats.cosine = e.max_x == 0 && e.max_ref == 0 ? 1 : quotient(n.product, n.x * n.ref);
  const double rmse = e.max_abs * (n.error / std::sqrt(static_cast<double>(stats.count)));
  stats.psnr_db = rmse == 0 ? infinity : 20 * std::log10((e.high - e.low) / rmse);
  stats.worst_index = unravel(e.worst, x.sizes());
  stats.reference_norm = e.max_ref * n.ref;
  return stats;
}

}  // namespace shardproof
