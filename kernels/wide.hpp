#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>

/// Loops compiled twice, for the build's own registers and for 512-bit ones, and chosen when they run: the build is for
/// processors that need not have those. For the sources of this folder.
namespace shardproof {

/// Marks a function to be compiled for 512-bit registers; what it calls is inlined into it. To be called only where
/// `has_wide_registers()`.
#define SHARDPROOF_WIDE [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), gnu::flatten]]

inline bool has_wide_registers() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

template <class Body>
SHARDPROOF_WIDE void call_wide(const Body& body, int64_t i) {
  body(i);
}

/// A loop body for Kokkos that runs in the widest registers there are.
template <class Body>
struct Widest {
  Body body;
  bool wide = has_wide_registers();

  void operator()(int64_t i) const { wide ? call_wide(body, i) : body(i); }
};

/// Kokkos::parallel_for over 0 ≤ i < count with such a body.
template <class Body>
void parallel_wide(const char* label, int64_t count, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<>(0, count), Widest<Body>{body});
}

}  // namespace shardproof
