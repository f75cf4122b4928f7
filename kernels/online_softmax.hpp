#pragma once

#include "kernels/vector_exp.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>

namespace shardproof {

/// The running maximum and sum of one row of scores that arrives tile by tile (online softmax: Milakov & Gimelshein
/// 2018; FlashAttention-2, Dao 2023, algorithm 1). A is the arithmetic's type.
template <class A>
struct RunningSoftmax {
  A top = -INFINITY;  ///< of scale · score
  A sum = 0;          ///< of exp(scale · score - top)

  /// By what to multiply everything weighted so far, before a tile whose largest score is `peak`: 0 at the first.
  KOKKOS_INLINE_FUNCTION A raise(A peak) {
    if (!(peak > top)) return A(1);
    const A shrink = std::exp(top - peak);
    sum *= shrink;
    top = peak;
    return shrink;
  }

  KOKKOS_INLINE_FUNCTION A lse() const { return sum == 0 ? -INFINITY : top + std::log(sum); }
  KOKKOS_INLINE_FUNCTION A inverse() const { return sum == 0 ? A(0) : 1 / sum; }  ///< 0: no key was attended to
};

/// The largest of `count` scores; NaN is passed over here and comes through the weights.
template <class A>
KOKKOS_INLINE_FUNCTION A largest(const A* scores, int64_t count) {
  A peak = -INFINITY;
#pragma omp simd reduction(max : peak)
  for (int64_t t = 0; t < count; ++t) peak = scores[t] > peak ? scores[t] : peak;
  return peak;
}

/// `narrow` for a weight, which is neither negative nor close to overflow: no test for NaN, whose payload overflows only
/// where it is all ones, and arithmetic makes none such.
template <class W, class A>
KOKKOS_INLINE_FUNCTION W round_weight(A weight) {
  if constexpr (std::is_same_v<W, c10::BFloat16>) {
    const auto bits = std::bit_cast<uint32_t>(weight);
    return c10::BFloat16(static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16), c10::BFloat16::from_bits());
  } else {
    return static_cast<W>(weight);
  }
}

/// weights = exp(scale · scores - top), rounded to W; their unrounded sum is returned.
template <class A, class W>
KOKKOS_INLINE_FUNCTION A weigh(const A* scores, W* weights, int64_t count, A scale, A top) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t t = 0; t < count; ++t) {
    const A weight = vector_exp_of_negative(scores[t] * scale - top);
    sum += weight;
    weights[t] = round_weight<W>(weight);
  }
  return sum;
}

/// The same two loops as functions, for the widest registers there are.
template <class W>
struct SoftmaxLoops {
  float (*largest)(const float* scores, int64_t count);
  float (*weigh)(const float* scores, W* weights, int64_t count, float scale, float top);
};

SHARDPROOF_WIDE inline float largest_wide(const float* scores, int64_t count) { return largest(scores, count); }

template <class W>
SHARDPROOF_WIDE float weigh_wide(const float* scores, W* weights, int64_t count, float scale, float top) {
  return weigh(scores, weights, count, scale, top);
}

template <class W>
SoftmaxLoops<W> softmax_loops() {
  return has_wide_registers() ? SoftmaxLoops<W>{largest_wide, weigh_wide<W>} : SoftmaxLoops<W>{largest<float>, weigh<float, W>};
}

}  // namespace shardproof
