#pragma once

#include "harness/gates.hpp"
#include "kernels/error_stats.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardproof {

/// One output of one module, or of the whole model, judged by one gate.
struct Comparison {
  bool logic = true;  ///< the fp64 gate; otherwise a precision ratio
  Level level = Level::module;
  std::string module, output;
  ErrorStats stats;                    ///< against the fp64 reference
  std::optional<double> single_error;  ///< a single device's relative L2 against the same reference, same dtype
  std::optional<double> ratio;
  double limit = 0;
  bool pass = false;
  std::optional<int> rank;  ///< whose part is worst, when it did not pass
  std::optional<double> max_abs_limit = std::nullopt;  ///< that the largest absolute error left, when it is that which failed
};

/// relative L2 ≤ limit.
Comparison judge_logic(Level level, std::string module, std::string output, const ErrorStats& stats, double limit);

/// relative L2 / max(single's, floor) ≤ limit; and where single's error is 0, so must this be.
/// `max_abs_limit`: largest allowed max-abs over single's, or nothing.
Comparison judge_precision(Level level, std::string module, std::string output, const ErrorStats& stats, const ErrorStats& single,
                           double floor, double limit, std::optional<double> max_abs_limit);

}  // namespace shardproof
