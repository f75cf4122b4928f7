#include "kernels/attention_flash.hpp"
#include "kernels/online_softmax.hpp"
#include "kernels/panel_transpose.hpp"
#include "kernels/views.hpp"

#include <ATen/native/CPUBlas.h>

#include <array>
#include <cstring>

namespace shardproof {
namespace {

namespace cpublas = at::native::cpublas;
using Policy = Kokkos::TeamPolicy<>;
using Member = Policy::member_type;

/// Sizes of the tiles. Packing a tile of keys costs as much as 5 to 10 % of the products of 256 queries, hence 512;
/// their scores against 256 keys fill half a megabyte of second-level cache.
constexpr int64_t most_rows = 512;
constexpr int64_t tile_keys = 256;
/// Products added up one after another: longer sums lose digits, which 16-bit weights do not have.
template <class E>
constexpr int64_t most_depth = sizeof(E) == 2 ? tile_keys : 128;
constexpr int64_t panel = 64;  ///< columns of the right operand that lie together

KOKKOS_INLINE_FUNCTION int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// How many rows of the right operand share a 32-bit word: brgemm takes 16-bit operands in pairs (VNNI).
template <class E>
constexpr int64_t pairing = 4 / sizeof(E);

/// C (+)= A B with B in panels: [columns / panel][depth / pairing][panel][pairing].
template <class E>
void multiply(bool accumulate, const E* a, int64_t lda, const E* panels, float* c, int64_t ldc, int64_t rows, int64_t columns,
              int64_t depth, int64_t panel_stride) {
  for (int64_t j = 0; j < columns; j += panel)
    cpublas::brgemm(rows, std::min(panel, columns - j), depth, lda, panel, ldc, accumulate, a, panels + j / panel * panel_stride,
                    c + j, pairing<E> == 2);
}

/// The same in steps of `most_depth`.
template <class E>
void multiply_deep(bool accumulate, const E* a, int64_t lda, const E* panels, float* c, int64_t ldc, int64_t rows,
                   int64_t columns, int64_t depth, int64_t panel_stride) {
  for (int64_t k = 0; k < depth; k += most_depth<E>)
    multiply(accumulate || k > 0, a + k, lda, panels + k * panel, c, ldc, rows, columns, std::min(most_depth<E>, depth - k),
             panel_stride);
}

/// T the inputs' type, E the operands', R the result's. With `split`, 16-bit weights go in as two numbers, what
/// rounding leaves of a weight beside it: the result keeps fp32's precision, for half as much work again.
template <class T, class E, class R, bool split>
struct BrgemmAttention {
  using Scratch = Kokkos::View<std::byte*, Kokkos::DefaultExecutionSpace::scratch_memory_space, Unmanaged>;
  static constexpr int64_t line = 64;  ///< bytes of a cache line
  static constexpr bool split_weights = split;
  static constexpr bool in_place = std::is_same_v<E, float>;  ///< weights overwrite their scores

  Strided4<const T> q, k, v;
  Strided4<R> out;
  Flat<float> lse;
  Rows<const int64_t> order;
  Flat<const int64_t> count;
  int64_t queries, heads, group, width, padded_width, tile_rows, tiles, most_keys;
  float scale;
  SoftmaxLoops<std::conditional_t<split, float, E>> loops;

  /// Where a team works, and its scratch.
  struct Tile {
    int64_t b, h, first, rows;
    E *q, *k_panels, *v_panels, *gathered;
    float *scores, *sums;
    E *weights, *rest;
    RunningSoftmax<float>* running;
  };

  /// Lays the scratch out from `base`; returns its end. Each part starts on a cache line.
  intptr_t lay_out(intptr_t base, Tile& tile) const {
    base = round_up(base, line);
    const auto take = [&base](auto*& part, int64_t elements) {
      part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(base);
      base += round_up(elements * static_cast<int64_t>(sizeof(*part)), line);
    };
    take(tile.q, tile_rows * padded_width);
    take(tile.k_panels, most_keys * padded_width);
    take(tile.v_panels, most_keys * round_up(padded_width, panel));
    take(tile.gathered, panel * padded_width);
    take(tile.scores, tile_rows * most_keys);
    take(tile.sums, tile_rows * padded_width);
    take(tile.running, tile_rows);
    if constexpr (in_place)
      tile.weights = tile.scores;
    else
      take(tile.weights, tile_rows * most_keys);
    tile.rest = nullptr;
    if constexpr (split) take(tile.rest, tile_rows * most_keys);
    return base;
  }

  int64_t scratch_size() const {
    Tile tile{};
    return lay_out(0, tile) + line;
  }

  Tile locate(int64_t index, std::byte* scratch) const {
    Tile tile{};
    tile.b = index / tiles / heads;
    tile.h = index / tiles % heads;
    tile.first = index % tiles * tile_rows;
    tile.rows = std::min(queries - tile.first, tile_rows);
    lay_out(reinterpret_cast<intptr_t>(scratch), tile);
    return tile;
  }

  /// One row of an input as an operand, padded with zeros; null gives zeros.
  void fill_row(const T* from, E* to) const {
    const int64_t filled = from ? width : 0;
    if constexpr (std::is_same_v<T, E>) {
      if (from) std::memcpy(to, from, filled * sizeof(E));
    } else {
#pragma omp simd
      for (int64_t d = 0; d < filled; ++d) to[d] = narrow<E>(widen(from[d]));
    }
    for (int64_t d = filled; d < padded_width; ++d) to[d] = E(0);
  }

  void start(const Tile& tile) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      fill_row(&q(tile.b, tile.first + i, tile.h, 0), tile.q + i * padded_width);
      tile.running[i] = {};
    }
  }

  /// Keys `first` … `first + keys` as panels of kᵀ and of v; keys past the last are zeros.
  void pack(const Tile& tile, int64_t first, int64_t keys) const {
    const void* rows[panel];
    for (int64_t at = 0; at < keys; at += panel) {
      gather(tile, k, first + at, keys - at, rows);
      transpose(rows, tile.k_panels + at * padded_width);
      gather(tile, v, first + at, keys - at, rows);
      interleave(rows, tile.v_panels + at * panel, round_up(keys, panel) * panel);
    }
  }

  /// Where 64 keys lie: in the input, or copied when it has another type or width, or fewer keys.
  void gather(const Tile& tile, const Strided4<const T>& from, int64_t first, int64_t keys, const void** rows) const {
    const bool as_it_lies = std::is_same_v<T, E> && width == padded_width;
    for (int64_t t = 0; t < panel; ++t) {
      const T* row = t < keys ? &from(tile.b, order(tile.b, first + t), tile.h / group, 0) : nullptr;
      E* copy = tile.gathered + t * padded_width;
      if (!as_it_lies || !row) fill_row(row, copy);
      rows[t] = as_it_lies && row ? static_cast<const void*>(row) : copy;
    }
  }

  /// 64 keys as columns: words of one or two elements are transposed.
  void transpose(const void* const* rows, E* to) const {
    auto* words = reinterpret_cast<uint32_t*>(to);
    for (int64_t t = 0; t < panel; t += 8)
      for (int64_t d = 0; d < padded_width / pairing<E>; d += 8) transpose_block(rows + t, d, words + d * panel + t, panel);
  }

  /// 64 keys as rows, cut into panels; of 16-bit elements, two keys next to each other.
  void interleave(const void* const* rows, E* to, int64_t panel_stride) const {
    for (int64_t d = 0; d < padded_width; d += panel, to += panel_stride) {
      const int64_t columns = std::min(panel, padded_width - d);
      for (int64_t t = 0; t < panel; t += pairing<E>) {
        const E* from = static_cast<const E*>(rows[t]) + d;
        if constexpr (pairing<E> == 1) {
#pragma omp simd
          for (int64_t j = 0; j < columns; ++j) to[t * panel + j] = from[j];
        } else {
          const E* next = static_cast<const E*>(rows[t + 1]) + d;
          auto* pairs = reinterpret_cast<uint32_t*>(to + t * panel);
#pragma omp simd
          for (int64_t j = 0; j < columns; ++j) pairs[j] = from[j].x | static_cast<uint32_t>(next[j].x) << 16;
        }
      }
    }
  }

  /// Turns one row of scores into weights, and rescales what came before.
  void soften(const Tile& tile, int64_t i, int64_t keys, int64_t padded_keys) const {
    float* scores = tile.scores + i * most_keys;
    E* weights = tile.weights + i * most_keys;
    auto& running = tile.running[i];
    const float shrink = running.raise(loops.largest(scores, keys) * scale);
    if (shrink != 1) {
      float* sums = tile.sums + i * padded_width;
#pragma omp simd
      for (int64_t d = 0; d < padded_width; ++d) sums[d] *= shrink;
    }
    if constexpr (split) {
      running.sum += loops.weigh(scores, scores, keys, scale, running.top);
      divide(scores, weights, tile.rest + i * most_keys, keys);
    } else {
      running.sum += loops.weigh(scores, weights, keys, scale, running.top);
    }
    for (int64_t t = keys; t < padded_keys; ++t) weights[t] = E(0);
    if constexpr (split)
      for (int64_t t = keys; t < padded_keys; ++t) tile.rest[i * most_keys + t] = E(0);
  }

  /// Each weight as a rounded one and what rounding left of it.
  static void divide(const float* whole, E* weights, E* rest, int64_t keys) {
#pragma omp simd
    for (int64_t t = 0; t < keys; ++t) {
      weights[t] = round_weight<E>(whole[t]);
      rest[t] = narrow<E>(whole[t] - widen(weights[t]));
    }
  }

  void finish(const Tile& tile) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t s = tile.first + i;
      const float inverse = tile.running[i].inverse(), *sums = tile.sums + i * padded_width;
      R* to = &out(tile.b, s, tile.h, 0);
      for (int64_t d = 0; d < width; ++d) to[d] = narrow<R>(inverse == 0 ? 0 : sums[d] * inverse);
      lse((tile.b * queries + s) * heads + tile.h) = tile.running[i].lse();
    }
  }

  void operator()(const Member& member) const {
    Scratch scratch(member.team_scratch(1), scratch_size());
    const Tile tile = locate(member.league_rank(), scratch.data());
    const int64_t keys = count(tile.b);
    start(tile);
    for (int64_t first = 0; first < keys; first += tile_keys) {
      const int64_t here = std::min(keys - first, tile_keys), padded = round_up(here, panel);
      pack(tile, first, here);
      multiply(false, tile.q, padded_width, tile.k_panels, tile.scores, most_keys, tile.rows, padded, padded_width,
               panel * padded_width);
      for (int64_t i = 0; i < tile.rows; ++i) soften(tile, i, here, padded);
      multiply_deep(first > 0, tile.weights, most_keys, tile.v_panels, tile.sums, padded_width, tile.rows, padded_width, padded,
                    padded * panel);
      if constexpr (split)
        multiply_deep(true, tile.rest, most_keys, tile.v_panels, tile.sums, padded_width, tile.rows, padded_width, padded,
                      padded * panel);
    }
    finish(tile);
    cpublas::brgemm_release(pairing<E> == 2);  // leaves the processor's matrix unit, where it has one
  }
};

template <class T, class E, class R>
void attend(const AttentionInputs& in, const AttendedKeys& keys, const Attended& result) {
  using Kernel = BrgemmAttention<T, E, R, !std::is_same_v<E, float> && std::is_same_v<R, float>>;
  const int64_t tiles = (in.queries + most_rows - 1) / most_rows;
  const Kernel kernel{strided_view<const T>(in.q_BSHD),
                      strided_view<const T>(in.k_BTHD),
                      strided_view<const T>(in.v_BTHD),
                      strided_view<R>(result.out_BSHD),
                      flat_view<float>(result.lse_BSH),
                      rows_view<const int64_t>(keys.order_BT),
                      flat_view<const int64_t>(keys.count_B),
                      in.queries,
                      in.heads,
                      in.group(),
                      in.width,
                      round_up(in.width, 16),
                      (in.queries + tiles - 1) / tiles,  // tiles of equal size
                      tiles,
                      std::min(tile_keys, round_up(in.keys, panel)),
                      static_cast<float>(in.scale()),
                      softmax_loops<std::conditional_t<Kernel::split_weights, float, E>>()};
  Policy policy(static_cast<int>(in.batch * in.heads * tiles), 1);
  policy.set_scratch_size(1, Kokkos::PerTeam(Kernel::Scratch::shmem_size(kernel.scratch_size())));
  Kokkos::parallel_for("shardproof::attention::flash_brgemm", policy, kernel);
}

/// Whether small products of every kind of tile come out right. LibTorch throws where it has no kernel.
template <class E>
bool multiplies() {
  try {
    for (const int64_t rows : {1, 5, 64})
      for (const int64_t columns : {16, 64})
        for (const int64_t depth : {16, 64}) {
          const std::vector<E> a(rows * depth, E(1)), b(panel * depth, E(2));
          std::vector<float> c(rows * panel, 1);
          multiply(true, a.data(), depth, b.data(), c.data(), panel, rows, columns, depth, 0);
          cpublas::brgemm_release(pairing<E> == 2);
          for (int64_t i = 0; i < rows * panel; ++i)
            if (c[i] != (i % panel < columns ? 1 + 2 * static_cast<float>(depth) : 1)) return false;
        }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

bool brgemm_multiplies(at::ScalarType dtype) {
  static const bool fp32 = multiplies<float>(), bf16 = multiplies<c10::BFloat16>(), fp16 = multiplies<c10::Half>();
  return dtype == at::kFloat ? fp32 : dtype == at::kBFloat16 ? bf16 : dtype == at::kHalf ? fp16 : false;
}

void flash_attention_brgemm(const AttentionInputs& inputs, const AttendedKeys& keys, const Attended& result,
                            FlashProducts products) {
  const bool native = products == FlashProducts::brgemm, rounded = result.out_BSHD.scalar_type() == inputs.dtype();
  const auto run = [&]<class T>(T) {
    if (native && rounded)
      attend<T, T, T>(inputs, keys, result);
    else if (native)
      attend<T, T, float>(inputs, keys, result);
    else if (rounded)
      attend<T, float, T>(inputs, keys, result);
    else
      attend<T, float, float>(inputs, keys, result);
  };
  switch (inputs.dtype()) {
    case at::kFloat:
      return attend<float, float, float>(inputs, keys, result);
    case at::kBFloat16:
      return run(c10::BFloat16{});
    default:
      return run(c10::Half{});
  }
}

}  // namespace shardproof
