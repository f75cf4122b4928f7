#include "kernels/rope.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>
#include <vector>

namespace shardproof {
namespace {

/// theta^(-2j / dim) for each pair of one axis, as diffusers rounds it: a power, then its reciprocal.
void append_frequencies(int64_t dim, double theta, std::vector<double>& out) {
  for (int64_t j = 0; j < dim / 2; ++j)
    out.push_back(1.0 / std::pow(theta, static_cast<double>(2 * j) / static_cast<double>(dim)));
}

void check_table(const Tensor& ids, at::IntArrayRef axes_dims, double theta, at::ScalarType dtype) {
  if (!ids.defined() || ids.dim() != 2 || ids.size(1) != static_cast<int64_t>(axes_dims.size()))
    fail_input("rope", "ids are {}; [S, {}] is needed for axes_dims {}", ids.defined() ? shape_text(ids.sizes()) : "undefined",
               axes_dims.size(), shape_text(axes_dims));
  for (const int64_t dim : axes_dims)
    if (dim < 0 || dim % 2) fail_input("rope", "axes_dims {} holds {}; even sizes are needed", shape_text(axes_dims), dim);
  if (!(theta > 0)) fail_input("rope", "theta is {}; accepted: above 0", theta);
  if (dtype != at::kFloat && dtype != at::kDouble) fail_input("rope", "a table in {}; accepted: fp32, fp64", dtype_name(dtype));
}

template <class T>
KOKKOS_INLINE_FUNCTION void turn_head(const T* x, const AccumulateOf<T>* cos, const AccumulateOf<T>* sin, T* out, int64_t width) {
  using A = AccumulateOf<T>;
#pragma omp simd
  for (int64_t i = 0; i < width; i += 2) {
    const A even = widen(x[i]), odd = widen(x[i + 1]);
    out[i] = narrow<T>(even * cos[i] - odd * sin[i]);
    out[i + 1] = narrow<T>(odd * cos[i + 1] + even * sin[i + 1]);
  }
}

/// x and out as [B · S, H · D]: the heads of one token share a row of the table.
template <class T>
void turn(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& out) {
  using A = AccumulateOf<T>;
  const int64_t tokens = x.size(1), heads = x.size(2), width = x.size(3);
  const auto in = flat_view<const T>(x);
  const auto result = flat_view<T>(out);
  const auto c = rows_view<const A>(cos), s = rows_view<const A>(sin);
  parallel_wide(
      "shardproof::rope::apply", x.size(0) * tokens, KOKKOS_LAMBDA(int64_t row) {
        const int64_t token = row % tokens;
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t at = (row * heads + head) * width;
          turn_head<T>(in.data() + at, &c(token, 0), &s(token, 0), result.data() + at, width);
        }
      });
}

}  // namespace

RopeTable rope_table(const Tensor& ids_SA, at::IntArrayRef axes_dims, double theta, at::ScalarType dtype) {
  check_table(ids_SA, axes_dims, theta, dtype);
  const Tensor ids = ids_SA.to(at::kDouble).contiguous();
  std::vector<double> frequencies;
  std::vector<int64_t> axes;  // the axis of each pair
  for (size_t a = 0; a < axes_dims.size(); ++a) {
    append_frequencies(axes_dims[a], theta, frequencies);
    axes.resize(frequencies.size(), static_cast<int64_t>(a));
  }
  const int64_t tokens = ids.size(0), pairs = static_cast<int64_t>(frequencies.size());
  Tensor cos = at::empty({tokens, 2 * pairs}, at::kDouble), sin = at::empty_like(cos);
  const double* id = ids.data_ptr<double>();
  double *c = cos.data_ptr<double>(), *s = sin.data_ptr<double>();
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < pairs; ++j) {
      const double angle = id[t * ids.size(1) + axes[j]] * frequencies[j];
      const int64_t at = 2 * (t * pairs + j);
      c[at] = c[at + 1] = std::cos(angle);
      s[at] = s[at + 1] = std::sin(angle);
    }
  return {cos.to(dtype), sin.to(dtype)};
}

Tensor apply_rope(const Tensor& x_BSHD, const RopeTable& table) {
  check_float("rope", "x", x_BSHD);
  if (x_BSHD.dim() != 4 || x_BSHD.size(3) % 2)
    fail_input("rope", "x is {}; [B, S, H, D] with an even D is needed", shape_text(x_BSHD.sizes()));
  for (const Tensor& part : {table.cos_SD, table.sin_SD}) {
    check_float("rope", "the table", part);
    check_operand("rope", "the table", part, part.scalar_type(), {x_BSHD.size(1), x_BSHD.size(3)});
  }
  ensure_kokkos();
  const Tensor x = x_BSHD.contiguous();
  Tensor out = at::empty_like(x);
  if (x.numel() == 0) return out;
  const auto compute = accumulate_dtype(x.scalar_type());
  const Tensor cos = table.cos_SD.to(compute).contiguous(), sin = table.sin_SD.to(compute).contiguous();
  visit_float(x.scalar_type(), [&](auto zero) { turn<decltype(zero)>(x, cos, sin, out); });
  return out;
}

}  // namespace shardproof
