#pragma once

#include "core/tensor.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

/// Benchmarks of two ways of doing the same thing, ours and another, timed in turn (A B A B …) in one run: what else the
/// machine does falls on both.
namespace shardproof::bench {

struct Paired {
  std::string name;
  std::function<void()> ours, other;
  double target = 0;  ///< the least median of other time / our time; 0: none
  int64_t work = 0;   ///< bytes moved, or operations, by either
  int pairs = 15;
  /// Our error over the other's, both against fp64; its target is at most 1.1.
  std::function<double()> error_ratio = {};
};

/// Registers it with Google Benchmark, under our time; `other_ms`, `ratio` and `error_ratio` are counters.
void add(Paired paired);

/// One line for every pair that was run, with its target, and how many were met.
void print_summary();

}  // namespace shardproof::bench
