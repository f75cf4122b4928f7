#include "kernels/rms_norm.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/lane_sum.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>

namespace shardproof {
namespace {

template <class T>
KOKKOS_INLINE_FUNCTION void normalise_row(const T* x, const T* weight, T* out, int64_t width, AccumulateOf<T> eps) {
  using A = AccumulateOf<T>;
  const A squares = lane_sum<A>(width, [x](int64_t c) {
    const A value = widen(x[c]);
    return value * value;
  });
  const A scale = 1 / std::sqrt(squares / static_cast<A>(width) + eps);
#pragma omp simd
  for (int64_t c = 0; c < width; ++c) out[c] = narrow<T>(widen(x[c]) * scale * widen(weight[c]));
}

template <class T>
void normalise(const Tensor& x, const Tensor& weight, double eps, const Tensor& out) {
  const auto in = rows_view<const T>(x);
  const auto result = rows_view<T>(out);
  const auto w = flat_view<const T>(weight);
  Kokkos::parallel_for(
      "shardproof::rms_norm", Kokkos::RangePolicy<>(0, in.extent(0)), Widest{KOKKOS_LAMBDA(int64_t row) {
        normalise_row<T>(&in(row, 0), w.data(), &result(row, 0), static_cast<int64_t>(in.extent(1)),
                         static_cast<AccumulateOf<T>>(eps));
}
}  // namespace
);
}  // namespace shardproof

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
