#pragma once

#include <Kokkos_Core.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

namespace shardproof {

/// yes or no, by bits: gcc turns two conditional expressions in a row into branches, which do not vectorise.
KOKKOS_INLINE_FUNCTION float select(bool condition, float yes, float no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & mask) | (std::bit_cast<uint32_t>(no) & ~mask));
}

/// exp in plain arithmetic, so that loops over it vectorise; libm's is a call per element, and attention would
/// spend as long in it as in its products. Cephes' expf (S. Moshier): n = round(x / ln 2), a polynomial on the
/// remainder, times 2^n; relative error below 2e-7. For arguments in [-87.3, 88], where the result is neither
/// subnormal nor infinite; NaN stays NaN.
KOKKOS_INLINE_FUNCTION float vector_exp_in_range(float x) {
  constexpr float magic = 12582912.0f;  // 1.5 · 2^23: adding it leaves round(x) in the low mantissa bits
  const float shifted = x * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u);  // p · 2^n
}

/// The same for any argument, held to that range.
KOKKOS_INLINE_FUNCTION float vector_exp(float x) {
  return vector_exp_in_range(select(x > 88.0f, 88.0f, select(x < -87.3f, -87.3f, x)));
}

/// The same for arguments of at most 88, such as a score minus the largest.
KOKKOS_INLINE_FUNCTION float vector_exp_of_negative(float x) { return vector_exp_in_range(select(x < -87.3f, -87.3f, x)); }

KOKKOS_INLINE_FUNCTION double vector_exp(double x) { return std::exp(x); }
KOKKOS_INLINE_FUNCTION double vector_exp_of_negative(double x) { return std::exp(x); }

}  // namespace shardproof
