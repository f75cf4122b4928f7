#include "kernels/timestep_embedding.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"

#include <cmath>

namespace shardproof {
namespace {

/// The order of operations is diffusers': at t = 1000 another one moves an fp32 angle by 6e-5.
template <class A>
void embed(const Tensor& t, const Tensor& out) {
  const auto times = flat_view<const A>(t);
  const auto result = rows_view<A>(out);
  const int64_t half = out.size(1) / 2;
  Kokkos::parallel_for(
      "shardproof::timestep_embedding", Kokkos::RangePolicy<>(0, t.numel()), KOKKOS_LAMBDA(int64_t row) {
        for (int64_t j = 0; j < half; ++j) {
          const A exponent = static_cast<A>(-9.2103403719761827361) * static_cast<A>(j) / static_cast<A>(half);  // -ln 10000
          const A angle = times(row) * std::exp(exponent);
          result(row, j) = std::cos(angle);
          result(row, half + j) = std::sin(angle);
        }
      });
}

}  // namespace

Tensor timestep_embedding(const Tensor& t_B, int64_t dim, at::ScalarType dtype) {
  if (!t_B.defined() || t_B.dim() != 1)
    fail_input("timestep_embedding", "t is {}; [B] is needed", t_B.defined() ? shape_text(t_B.sizes()) : "undefined");
  if (dim <= 0 || dim % 2) fail_input("timestep_embedding", "dim is {}; accepted: positive even numbers", dim);
  if (t_B.is_complex()) fail_input("timestep_embedding", "t is {}; a real dtype is needed", dtype_name(t_B.scalar_type()));
  ensure_kokkos();
  const auto compute = accumulate_dtype(t_B.scalar_type());
  const Tensor t = t_B.to(compute).contiguous();
  Tensor out = at::empty({t.size(0), dim}, t.options());
  check_float("timestep_embedding", "the output", at::empty({0}, dtype));
  compute == at::kDouble ? embed<double>(t, out) : embed<float>(t, out);
  return out.to(dtype);
}

}  // namespace shardproof
