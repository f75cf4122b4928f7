#pragma once

#include <cstdint>
#include <cstring>

namespace shardproof {

/// Eight 32-bit words, in whatever vector registers there are.
using Words8 [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = uint32_t;

/// to[c · to_row + r] = rows[r][first + c] for an 8 × 8 block, in 32-bit words: three rounds of shuffles, where a plain
/// loop would load and store every word alone.
inline void transpose_block(const void* const* rows, int64_t first, uint32_t* to, int64_t to_row) {
  Words8 a[8], b[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&a[r], static_cast<const uint32_t*>(rows[r]) + first, sizeof(Words8));
  for (int r = 0; r < 8; r += 2) {
    b[r] = __builtin_shufflevector(a[r], a[r + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[r + 1] = __builtin_shufflevector(a[r], a[r + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int r = 0; r < 8; r += 4)
    for (int half = 0; half < 2; ++half) {
      a[r + 2 * half] = __builtin_shufflevector(b[r + half], b[r + half + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[r + 2 * half + 1] = __builtin_shufflevector(b[r + half], b[r + half + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int c = 0; c < 4; ++c) {
    b[c] = __builtin_shufflevector(a[c], a[c + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[c + 4] = __builtin_shufflevector(a[c], a[c + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int c = 0; c < 8; ++c) std::memcpy(to + c * to_row, &b[c], sizeof(Words8));
}

}  // namespace shardproof
