#include "kernels/attention_flash.hpp"
#include "kernels/online_softmax.hpp"
#include "kernels/views.hpp"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

using Policy = Kokkos::TeamPolicy<>;
using Member = Policy::member_type;

/// Sizes of the tiles. The block a register tile computes is 6 rows × 64 bytes: with 256-bit vectors, twelve
/// accumulators, two loads and a broadcast fill fifteen of sixteen registers.
constexpr int block_rows = 6;
template <class A>
constexpr int block_columns = 64 / sizeof(A);
constexpr int64_t tile_keys = 64;          // scores of a tile stay in the first-level cache
constexpr int64_t most_tile_queries = 96;  // a packed key tile serves this many queries

KOKKOS_INLINE_FUNCTION int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// C (+)= A B for one register block: A [6, depth], B [depth, 16 or 8], both row-major.
template <bool accumulate, class A>
KOKKOS_INLINE_FUNCTION void multiply_block(const A* a, int64_t lda, const A* b, int64_t ldb, A* c, int64_t ldc, int64_t depth) {
  constexpr int columns = block_columns<A>;
  A sum[block_rows][columns] = {};
  for (int64_t k = 0; k < depth; ++k)
    for (int i = 0; i < block_rows; ++i)
#pragma omp simd
      for (int j = 0; j < columns; ++j) sum[i][j] += a[i * lda + k] * b[k * ldb + j];
  for (int i = 0; i < block_rows; ++i)
#pragma omp simd
    for (int j = 0; j < columns; ++j) c[i * ldc + j] = (accumulate ? c[i * ldc + j] : A(0)) + sum[i][j];
}

/// C (+)= A B; rows is a multiple of 6 and columns of a block's.
template <bool accumulate, class A>
KOKKOS_INLINE_FUNCTION void multiply(const A* a, int64_t lda, const A* b, int64_t ldb, A* c, int64_t rows, int64_t columns,
                                     int64_t depth) {
  for (int64_t j = 0; j < columns; j += block_columns<A>)
    for (int64_t i = 0; i < rows; i += block_rows)
      multiply_block<accumulate>(a + i * lda, lda, b + j, ldb, c + i * ldb + j, ldb, depth);
}

/// Operands are packed into scratch in the arithmetic's type, padded with zeros, which add nothing.
template <class T, class R>
struct FlashAttention {
  using A = AccumulateOf<T>;
  using Scratch = Kokkos::View<A*, Kokkos::DefaultExecutionSpace::scratch_memory_space, Unmanaged>;

  Strided4<const T> q, k, v;
  Strided4<R> out;
  Flat<A> lse;
  Rows<const int64_t> order;
  Flat<const int64_t> count;
  int64_t queries, heads, group, width, tile_queries, tiles;
  A scale;

  /// Where a team works, and its scratch.
  struct Tile {
    int64_t b, h, first, rows, padded_width;
    A *q, *k_transposed, *v, *weights, *sums;
    RunningSoftmax<A>* running;
  };

  static int64_t scratch_size(int64_t rows, int64_t width) {
    const int64_t padded = round_up(width, block_columns<A>);
    return rows * (width + tile_keys + padded + 2) + tile_keys * (width + padded);
  }

  KOKKOS_INLINE_FUNCTION Tile locate(int64_t index, A* scratch) const {
    Tile tile{};
    tile.b = index / tiles / heads;
    tile.h = index / tiles % heads;
    tile.first = index % tiles * tile_queries;
    tile.rows = queries - tile.first < tile_queries ? queries - tile.first : tile_queries;
    tile.padded_width = round_up(width, block_columns<A>);
    tile.q = scratch;
    tile.k_transposed = tile.q + tile_queries * width;
    tile.v = tile.k_transposed + tile_keys * width;
    tile.weights = tile.v + tile_keys * tile.padded_width;
    tile.sums = tile.weights + tile_queries * tile_keys;
    tile.running = reinterpret_cast<RunningSoftmax<A>*>(tile.sums + tile_queries * tile.padded_width);
    return tile;
  }

  KOKKOS_INLINE_FUNCTION void start(const Tile& tile) const {
    for (int64_t i = 0; i < tile_queries; ++i) {
      const T* from = i < tile.rows ? &q(tile.b, tile.first + i, tile.h, 0) : nullptr;
      for (int64_t d = 0; d < width; ++d) tile.q[i * width + d] = from ? widen(from[d]) : A(0);
      for (int64_t d = 0; d < tile.padded_width; ++d) tile.sums[i * tile.padded_width + d] = 0;
      tile.running[i] = {};
    }
  }

  KOKKOS_INLINE_FUNCTION void pack_keys(const Tile& tile, int64_t first, int64_t keys) const {
    const int64_t kv = tile.h / group;
    for (int64_t t = 0; t < tile_keys; ++t) {
      A* values = tile.v + t * tile.padded_width;
      const int64_t key = t < keys ? order(tile.b, first + t) : -1;
      const T *from_k = key < 0 ? nullptr : &k(tile.b, key, kv, 0), *from_v = key < 0 ? nullptr : &v(tile.b, key, kv, 0);
      for (int64_t d = 0; d < width; ++d) tile.k_transposed[d * tile_keys + t] = from_k ? widen(from_k[d]) : A(0);
      for (int64_t d = 0; d < width; ++d) values[d] = from_v ? widen(from_v[d]) : A(0);
      for (int64_t d = width; d < tile.padded_width; ++d) values[d] = 0;
    }
  }

  /// Turns one row of scores into weights, and rescales what came before.
  KOKKOS_INLINE_FUNCTION void soften(const Tile& tile, int64_t i, int64_t keys) const {
    A* row = tile.weights + i * tile_keys;
    auto& running = tile.running[i];
    const A shrink = running.raise(largest(row, keys) * scale);
    if (shrink != 1) {
      A* sums = tile.sums + i * tile.padded_width;
#pragma omp simd
      for (int64_t d = 0; d < tile.padded_width; ++d) sums[d] *= shrink;
    }
    running.sum += weigh(row, row, keys, scale, running.top);
    for (int64_t t = keys; t < tile_keys; ++t) row[t] = 0;
  }

  KOKKOS_INLINE_FUNCTION void finish(const Tile& tile) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t s = tile.first + i;
      const A inverse = tile.running[i].inverse();
      R* to = &out(tile.b, s, tile.h, 0);
      for (int64_t d = 0; d < width; ++d) to[d] = narrow<R>(tile.sums[i * tile.padded_width + d] * inverse);
      lse((tile.b * queries + s) * heads + tile.h) = tile.running[i].lse();
    }
  }

  KOKKOS_INLINE_FUNCTION void operator()(const Member& member) const {
    Scratch scratch(member.team_scratch(1), scratch_size(tile_queries, width));
    const Tile tile = locate(member.league_rank(), scratch.data());
    const int64_t keys = count(tile.b);
    start(tile);
    for (int64_t first = 0; first < keys; first += tile_keys) {
      const int64_t here = keys - first < tile_keys ? keys - first : tile_keys;
      pack_keys(tile, first, here);
      multiply<false>(tile.q, width, tile.k_transposed, tile_keys, tile.weights, tile_queries, tile_keys, width);
      for (int64_t i = 0; i < tile.rows; ++i) soften(tile, i, here);
      multiply<true>(tile.weights, tile_keys, tile.v, tile.padded_width, tile.sums, tile_queries, tile.padded_width, tile_keys);
    }
    finish(tile);
  }
};

template <class T, class R>
void attend(const AttentionInputs& in, const AttendedKeys& keys, const Attended& result) {
  using A = AccumulateOf<T>;
  const int64_t tiles = (in.queries + most_tile_queries - 1) / most_tile_queries;
  const int64_t rows = round_up((in.queries + tiles - 1) / tiles, block_rows);  // tiles of equal size
  const FlashAttention<T, R> kernel{strided_view<const T>(in.q_BSHD),
                                    strided_view<const T>(in.k_BTHD),
                                    strided_view<const T>(in.v_BTHD),
                                    strided_view<R>(result.out_BSHD),
                                    flat_view<A>(result.lse_BSH),
                                    rows_view<const int64_t>(keys.order_BT),
                                    flat_view<const int64_t>(keys.count_B),
                                    in.queries,
                                    in.heads,
                                    in.group(),
                                    in.width,
                                    rows,
                                    tiles,
                                    static_cast<A>(in.scale())};
  Policy policy(static_cast<int>(in.batch * in.heads * tiles), 1);
  policy.set_scratch_size(1, Kokkos::PerTeam(FlashAttention<T, R>::Scratch::shmem_size(kernel.scratch_size(rows, in.width))));
  Kokkos::parallel_for("shardproof::attention::flash_portable", policy, kernel);
}

}  // namespace

void flash_attention_portable(const AttentionInputs& inputs, const AttendedKeys& keys, const Attended& result) {
  const bool rounded = result.out_BSHD.scalar_type() == inputs.dtype();
  visit_float(inputs.dtype(), [&](auto zero) {
    using T = decltype(zero);
    rounded ? attend<T, T>(inputs, keys, result) : attend<T, AccumulateOf<T>>(inputs, keys, result);
  });
}

}  // namespace shardproof
