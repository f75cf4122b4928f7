#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace shardproof {

/// Σ term(i) over 0 ≤ i < count, in sixteen interleaved sums that are then added in pairs: the order is the same whatever
/// the registers, the loop vectorises, and the compiler's own reduction would add its lanes one by one.
template <class A, class Term>
KOKKOS_INLINE_FUNCTION A lane_sum(int64_t count, const Term& term) {
  constexpr int64_t lanes = 16;
  A sums[lanes] = {};
  int64_t first = 0;
  for (; first + lanes <= count; first += lanes) {
#pragma omp simd
    for (int64_t j = 0; j < lanes; ++j) sums[j] += term(first + j);
  }
  for (int64_t j = 0; j < lanes && first + j < count; ++j) sums[j] += term(first + j);
  // Written out: as a loop over shrinking halves it goes through memory, and costs as much as a row of 128.
  A four[4];
  for (int j = 0; j < 4; ++j) four[j] = (sums[j] + sums[j + 8]) + (sums[j + 4] + sums[j + 12]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

}  // namespace shardproof
