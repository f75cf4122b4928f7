#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <vector>

namespace shardproof {

/// How far a tensor is from its reference. A quotient 0/0 counts as 0, x/0 as infinity.
struct ErrorStats {
  double relative_l2 = 0;            ///< ‖x - ref‖₂ / ‖ref‖₂; infinity when anything is not finite
  double max_abs = 0;                ///< largest |x - ref|
  double max_rel = 0;                ///< largest |x - ref| / |ref|, element by element
  double cosine = 1;                 ///< x·ref / (‖x‖ ‖ref‖); 1 when both are zero, 0 when one is
  double psnr_db = 0;                ///< 20 log10((max ref - min ref) / rmse); infinity when equal
  std::vector<int64_t> worst_index;  ///< where max_abs is (the first such element), or the first non-finite one
  int64_t count = 0;                 ///< number of elements
  double reference_norm = 0;         ///< ‖ref‖₂
  bool finite = true;                ///< whether x and ref are finite everywhere
};

/// Compares two tensors of equal shape and any real dtype, in fp64 with compensated sums over scaled values:
/// errors of 1e-15 and values near the ends of fp64's range are measured, not rounded away. Sums go block by
/// block in a fixed order, so the result does not depend on the number of threads. When anything is not
/// finite, relative_l2, max_abs and max_rel are infinity, cosine 0 and psnr_db -infinity.
/// Input Error on unequal shapes.
ErrorStats error_stats(const Tensor& x, const Tensor& reference);

}  // namespace shardproof
