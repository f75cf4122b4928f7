#include "kernels/merge.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"
#include "kernels/wide.hpp"

#include <cmath>

namespace shardproof {
namespace {

void check_partial(std::string_view what, const Attended& partial, const Attended& into) {
  check_float("merge", fmt::format("{}'s out", what), partial.out_BSHD);
  check_float("merge", fmt::format("{}'s lse", what), partial.lse_BSH);
  const auto out = partial.out_BSHD.sizes(), needed = into.out_BSHD.sizes();
  if (out.size() != 4 || out != needed)
    fail_input("merge", "{}'s out is {}; {} is needed", what, shape_text(out),
               out.size() == 4 ? shape_text(needed) : "[B, S, H, D]");
  check_operand("merge", fmt::format("{}'s lse", what), partial.lse_BSH, into.lse_BSH.scalar_type(), needed.slice(0, 3));
}

/// One query row of one head. W is the lse's type and the arithmetic's.
template <class T, class U, class W>
KOKKOS_INLINE_FUNCTION void merge_row(T* out, W& lse, const U* other, W other_lse, int64_t width) {
  if (other_lse == -INFINITY) return;  // it has seen no key
  if (lse == -INFINITY) {
    for (int64_t d = 0; d < width; ++d) out[d] = narrow<T>(widen(other[d]));
    lse = other_lse;
    return;
  }
  const W top = lse < other_lse ? other_lse : lse;
  const W mine = std::exp(lse - top), theirs = std::exp(other_lse - top), sum = mine + theirs;
  const W my_share = mine / sum, their_share = theirs / sum;
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) out[d] = narrow<T>(my_share * widen(out[d]) + their_share * widen(other[d]));
  lse = top + std::log(sum);
}

template <class T, class U, class W>
void merge_rows(const Attended& into, const Attended& other) {
  const auto out = rows_view<T>(into.out_BSHD);
  const auto extra = rows_view<const U>(other.out_BSHD);
  const auto lse = flat_view<W>(into.lse_BSH);
  const auto extra_lse = flat_view<const W>(other.lse_BSH);
  const auto width = static_cast<int64_t>(out.extent(1));
  parallel_wide(
      "shardproof::merge_partial", out.extent(0),
      KOKKOS_LAMBDA(int64_t row) { merge_row<T, U, W>(&out(row, 0), lse(row), &extra(row, 0), extra_lse(row), width); });
}

}  // namespace

void merge_partial(Attended& into, const Attended& other) {
  check_partial("into", into, into);
  check_partial("other", other, into);
  ensure_kokkos();
  const auto lse_dtype = into.lse_BSH.scalar_type(), compute = accumulate_dtype(lse_dtype);
  into = {into.out_BSHD.contiguous(), into.lse_BSH.to(compute).contiguous()};
  if (into.out_BSHD.numel()) {
    const Attended extra{other.out_BSHD.contiguous(), other.lse_BSH.to(compute).contiguous()};
    visit_float(into.out_BSHD.scalar_type(), [&](auto out) {
      visit_float(extra.out_BSHD.scalar_type(), [&](auto add) {
        using T = decltype(out);
        using U = decltype(add);
        compute == at::kDouble ? merge_rows<T, U, double>(into, extra) : merge_rows<T, U, float>(into, extra);
      });
    });
  }
  into.lse_BSH = into.lse_BSH.to(lse_dtype);
}

}  // namespace shardproof
