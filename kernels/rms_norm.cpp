#include "kernels/rms_norm.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/lane_sum.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>

namespace shardproof {
namespace {

/// 1 / √(mean(x²) + eps) of one row.
template <class T>
KOKKOS_INLINE_FUNCTION AccumulateOf<T> row_scale(const T* x, int64_t width, AccumulateOf<T> eps) {
  using A = AccumulateOf<T>;
  const A squares = lane_sum<A>(width, [x](int64_t c) {
    const A value = widen(x[c]);
    return value * value;
  });
  return 1 / std::sqrt(squares / static_cast<A>(width) + eps);
}

/// Rows of a head are short: several scales are worked out before the first is used, or each row would wait for its
/// own sum, root and division.
constexpr int64_t rows_at_once = 8;

template <class T>
void normalise(const Tensor& x, const Tensor& weight, double eps, const Tensor& out) {
  using A = AccumulateOf<T>;
  const auto in = rows_view<const T>(x);
  const auto result = rows_view<T>(out);
  const auto w = flat_view<const T>(weight);
  const auto rows = static_cast<int64_t>(in.extent(0)), width = static_cast<int64_t>(in.extent(1));
  parallel_wide(
      "shardproof::rms_norm", (rows + rows_at_once - 1) / rows_at_once, KOKKOS_LAMBDA(int64_t part) {
        const int64_t first = part * rows_at_once, here = rows - first < rows_at_once ? rows - first : rows_at_once;
        const T *xs = in.data() + first * width, *weights = w.data();
        T* outs = result.data() + first * width;
        A scales[rows_at_once];
        for (int64_t i = 0; i < here; ++i) scales[i] = row_scale(xs + i * width, width, static_cast<A>(eps));
        for (int64_t i = 0; i < here; ++i) {
          const int64_t row = i * width;
          const A scale = scales[i];
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) outs[row + c] = narrow<T>(widen(xs[row + c]) * scale * widen(weights[c]));
        }
      });
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check_float("rms_norm", "x", x);
  if (x.dim() < 1 || x.size(-1) == 0)
    fail_input("rms_norm", "x is {}; a last dim of at least 1 is needed", shape_text(x.sizes()));
  if (!(eps >= 0)) fail_input("rms_norm", "eps is {}; accepted: 0 and above", eps);
  check_operand("rms_norm", "weight", weight, x.scalar_type(), {x.size(-1)});
  ensure_kokkos();
  const Tensor in = x.contiguous(), w = weight.contiguous();
  Tensor out = at::empty_like(in);
  visit_float(x.scalar_type(), [&](auto zero) { normalise<decltype(zero)>(in, w, eps, out); });
  return out;
}

}  // namespace shardproof
