#pragma once

#include "core/dtype.hpp"
#include "core/tensor.hpp"

#include <Kokkos_Core.hpp>

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

/// How kernels open tensors: without a copy, as unmanaged Kokkos views. For the sources of this folder.
namespace shardproof {

/// The type a kernel computes in: fp64 for fp64, fp32 for everything narrower.
template <class T>
using AccumulateOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// A value in the type it is computed in. Done on the bits for bf16, as `narrow` is, so that loops vectorise.
template <class T>
KOKKOS_INLINE_FUNCTION AccumulateOf<T> widen(T value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return std::bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
  else
    return static_cast<AccumulateOf<T>>(value);
}

/// Rounds to the nearest value of T, ties to even. c10's own bf16 rounding branches on NaN.
template <class T, class A>
KOKKOS_INLINE_FUNCTION T narrow(A value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return c10::BFloat16(static_cast<uint16_t>(value != value ? 0x7fc0u : rounded), c10::BFloat16::from_bits());
  } else {
    return static_cast<T>(value);
  }
}

using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
template <class T>
using Flat = Kokkos::View<T*, Kokkos::LayoutRight, Unmanaged>;
template <class T>
using Rows = Kokkos::View<T**, Kokkos::LayoutRight, Unmanaged>;
template <class T>
using Strided4 = Kokkos::View<T****, Kokkos::LayoutStride, Unmanaged>;

/// Input Error "[subsystem] <what> is …" unless the tensor is defined, on the CPU, and of a kernel's dtype.
void check_float(std::string_view subsystem, std::string_view what, const Tensor& tensor);
/// The same, and of `dtype`, and of the given shape.
void check_operand(std::string_view subsystem, std::string_view what, const Tensor& tensor, at::ScalarType dtype,
                   at::IntArrayRef shape);

/// Calls f(T{}) with the C++ type of a floating dtype; `check_float` has accepted it before.
template <class F>
void visit_float(at::ScalarType dtype, F&& f) {
  switch (dtype) {
    case at::kDouble:
      return f(double{});
    case at::kFloat:
      return f(float{});
    case at::kBFloat16:
      return f(c10::BFloat16{});
    default:
      return f(c10::Half{});
  }
}

/// All elements of a contiguous tensor.
template <class T>
Flat<T> flat_view(const Tensor& tensor) {
  return Flat<T>(static_cast<T*>(tensor.data_ptr()), tensor.numel());
}

/// A contiguous tensor [..., C] as [rows, C].
template <class T>
Rows<T> rows_view(const Tensor& tensor) {
  const int64_t width = tensor.size(-1);
  return Rows<T>(static_cast<T*>(tensor.data_ptr()), width ? tensor.numel() / width : 0, width);
}

/// A tensor of four dims, whatever its strides.
template <class T>
Strided4<T> strided_view(const Tensor& tensor) {
  const auto n = tensor.sizes(), s = tensor.strides();
  return Strided4<T>(static_cast<T*>(tensor.data_ptr()), Kokkos::LayoutStride(n[0], s[0], n[1], s[1], n[2], s[2], n[3], s[3]));
}

}  // namespace shardproof
