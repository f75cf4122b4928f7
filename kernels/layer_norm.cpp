#include "kernels/layer_norm.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/lane_sum.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>

namespace shardproof {
namespace {

/// One row: mean, then the variance of the centred values, then the result.
template <class T>
KOKKOS_INLINE_FUNCTION void normalise_row(const T* x, const T* weight, const T* bias, T* out, int64_t width,
                                          AccumulateOf<T> eps) {
  using A = AccumulateOf<T>;
  const A mean = lane_sum<A>(width, [x](int64_t c) { return widen(x[c]); }) / static_cast<A>(width);
  const A squares = lane_sum<A>(width, [x, mean](int64_t c) {
    const A centred = widen(x[c]) - mean;
    return centred * centred;
  });
  const A scale = 1 / std::sqrt(squares / static_cast<A>(width) + eps);
  if (!weight && !bias) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) out[c] = narrow<T>((widen(x[c]) - mean) * scale);
    return;
  }
  for (int64_t c = 0; c < width; ++c) {
    const A value = (widen(x[c]) - mean) * scale * (weight ? widen(weight[c]) : A(1));
    out[c] = narrow<T>(value + (bias ? widen(bias[c]) : A(0)));
  }
}

template <class T>
void normalise(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& out) {
  const auto in = rows_view<const T>(x);
  const auto result = rows_view<T>(out);
  const T* w = weight.defined() ? static_cast<const T*>(weight.data_ptr()) : nullptr;
  const T* b = bias.defined() ? static_cast<const T*>(bias.data_ptr()) : nullptr;
  const auto width = static_cast<int64_t>(in.extent(1));
  parallel_wide(
      "shardproof::layer_norm", in.extent(0), KOKKOS_LAMBDA(int64_t row) {
        normalise_row<T>(&in(row, 0), w, b, &result(row, 0), width, static_cast<AccumulateOf<T>>(eps));
      });
}

Tensor channel_operand(std::string_view what, const std::optional<Tensor>& operand, const Tensor& x) {
  if (!operand) return {};
  check_operand("layer_norm", what, *operand, x.scalar_type(), {x.size(-1)});
  return operand->contiguous();
}

}  // namespace

Tensor layer_norm(const Tensor& x, double eps, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias) {
  check_float("layer_norm", "x", x);
  if (x.dim() < 1 || x.size(-1) == 0)
    fail_input("layer_norm", "x is {}; a last dim of at least 1 is needed", shape_text(x.sizes()));
  if (!(eps >= 0)) fail_input("layer_norm", "eps is {}; accepted: 0 and above", eps);
  const Tensor w = channel_operand("weight", weight, x), b = channel_operand("bias", bias, x);
  ensure_kokkos();
  const Tensor in = x.contiguous();
  Tensor out = at::empty_like(in);
  visit_float(x.scalar_type(), [&](auto zero) { normalise<decltype(zero)>(in, w, b, eps, out); });
  return out;
}

}  // namespace shardproof
