#include "kernels/modulation.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

namespace shardproof {
namespace {

void check_tokens(std::string_view subsystem, std::string_view what, const Tensor& x) {
  check_float(subsystem, what, x);
  if (x.dim() != 3) fail_input(subsystem, "{} is {}; [B, S, C] is needed", what, shape_text(x.sizes()));
}

template <class T>
void modulate_rows(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& out) {
  const int64_t tokens = x.size(1), width = x.size(2);
  const auto in = rows_view<const T>(x), a = rows_view<const T>(scale), b = rows_view<const T>(shift);
  const auto result = rows_view<T>(out);
  parallel_wide(
      "shardproof::modulate", in.extent(0), KOKKOS_LAMBDA(int64_t row) {
        const T *xs = &in(row, 0), *scales = &a(row / tokens, 0), *shifts = &b(row / tokens, 0);
        T* outs = &result(row, 0);
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) outs[c] = narrow<T>(widen(xs[c]) * (1 + widen(scales[c])) + widen(shifts[c]));
      });
}

template <class T>
void gate_rows(const Tensor& residual, const Tensor& gate, const Tensor& x, const Tensor& out) {
  const int64_t tokens = x.size(1), width = x.size(2);
  const auto base = rows_view<const T>(residual), g = rows_view<const T>(gate), in = rows_view<const T>(x);
  const auto result = rows_view<T>(out);
  parallel_wide(
      "shardproof::gate_residual", in.extent(0), KOKKOS_LAMBDA(int64_t row) {
        const T *bases = &base(row, 0), *gates = &g(row / tokens, 0), *xs = &in(row, 0);
        T* outs = &result(row, 0);
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) outs[c] = narrow<T>(widen(bases[c]) + widen(gates[c]) * widen(xs[c]));
      });
}

}  // namespace

Tensor modulate(const Tensor& x_BSC, const Tensor& scale_BC, const Tensor& shift_BC) {
  check_tokens("modulate", "x", x_BSC);
  const auto dtype = x_BSC.scalar_type();
  check_operand("modulate", "scale", scale_BC, dtype, {x_BSC.size(0), x_BSC.size(2)});
  check_operand("modulate", "shift", shift_BC, dtype, {x_BSC.size(0), x_BSC.size(2)});
  ensure_kokkos();
  const Tensor x = x_BSC.contiguous(), scale = scale_BC.contiguous(), shift = shift_BC.contiguous();
  Tensor out = at::empty_like(x);
  if (x.numel()) visit_float(dtype, [&](auto zero) { modulate_rows<decltype(zero)>(x, scale, shift, out); });
  return out;
}

Tensor gate_residual(const Tensor& residual_BSC, const Tensor& gate_BC, const Tensor& x_BSC) {
  check_tokens("gate_residual", "x", x_BSC);
  const auto dtype = x_BSC.scalar_type();
  check_operand("gate_residual", "residual", residual_BSC, dtype, x_BSC.sizes());
  check_operand("gate_residual", "gate", gate_BC, dtype, {x_BSC.size(0), x_BSC.size(2)});
  ensure_kokkos();
  const Tensor residual = residual_BSC.contiguous(), gate = gate_BC.contiguous(), x = x_BSC.contiguous();
  Tensor out = at::empty_like(x);
  if (x.numel()) visit_float(dtype, [&](auto zero) { gate_rows<decltype(zero)>(residual, gate, x, out); });
  return out;
}

}  // namespace shardproof
