#include "kernels/all_to_all_pack.hpp"

#include "core/error.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"

#include <cstring>

namespace shardproof {
namespace {

/// All four functions are one layout change: a tensor [outer, split, inner] against the concatenation of its
/// chunks [outer, sizes[j], inner]. `start[k]` is where row (0, k) lies in the flat buffer and `stride[k]` how far
/// apart the rows of successive outer indices are, both in rows of `inner` elements.
struct Layout {
  int64_t outer = 0, split = 0, row_bytes = 0;
  Tensor start, stride;
};

Layout layout(std::string_view subsystem, std::string_view what, int64_t outer, const std::vector<int64_t>& sizes,
              int64_t row_bytes) {
  Layout result{outer, 0, row_bytes, {}, {}};
  for (const int64_t size : sizes) {
    if (size < 0) fail_input(subsystem, "{} {} holds a negative size", what, shape_text(sizes));
    result.split += size;
  }
  result.start = at::empty({result.split}, at::kLong);
  result.stride = at::empty({result.split}, at::kLong);
  int64_t *start = result.start.data_ptr<int64_t>(), *stride = result.stride.data_ptr<int64_t>(), offset = 0;
  for (const int64_t size : sizes) {
    for (int64_t k = 0; k < size; ++k) {
      *start++ = outer * offset + k;
      *stride++ = size;
    }
    offset += size;
  }
  return result;
}

/// Copies every row, from the tensor to the flat buffer or back.
void move_rows(const char* label, const Layout& layout, const Tensor& tensor, const Tensor& flat, bool pack) {
  ensure_kokkos();
  if (tensor.numel() == 0) return;
  auto *whole = static_cast<std::byte*>(tensor.data_ptr()), *chunks = static_cast<std::byte*>(flat.data_ptr());
  const auto start = flat_view<const int64_t>(layout.start), stride = flat_view<const int64_t>(layout.stride);
  const int64_t split = layout.split, bytes = layout.row_bytes;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<>(0, layout.outer * split), KOKKOS_LAMBDA(int64_t row) {
        const int64_t outer = row / split, k = row % split;
        std::byte *one = whole + row * bytes, *other = chunks + (start(k) + outer * stride(k)) * bytes;
        pack ? std::memcpy(other, one, bytes) : std::memcpy(one, other, bytes);
      });
}

Tensor tokens(std::string_view subsystem, const Tensor& x) {
  if (!x.defined() || x.dim() != 4)
    fail_input(subsystem, "x is {}; [B, S, H, D] is needed", x.defined() ? shape_text(x.sizes()) : "undefined");
  return x.contiguous();
}

/// 0 for an undefined tensor, which `buffer` then refuses.
int64_t element_size(const Tensor& flat) { return flat.defined() ? flat.element_size() : 0; }

Tensor buffer(std::string_view subsystem, const Tensor& flat, at::IntArrayRef shape) {
  for (const int64_t size : shape)
    if (size < 0) fail_input(subsystem, "a result of {} is asked for", shape_text(shape));
  if (!flat.defined() || flat.dim() != 1 || flat.numel() != c10::multiply_integers(shape))
    fail_input(subsystem, "the buffer is {}; one dim of {} elements is needed, for {}",
               flat.defined() ? shape_text(flat.sizes()) : "undefined", c10::multiply_integers(shape), shape_text(shape));
  return flat.contiguous();
}

void check_sum(std::string_view subsystem, std::string_view what, const std::vector<int64_t>& sizes, int64_t sum,
               int64_t needed) {
  if (sum != needed) fail_input(subsystem, "{} {} add up to {}; x has {}", what, shape_text(sizes), sum, needed);
}

}  // namespace

Tensor pack_heads(const Tensor& x_BSHD, const std::vector<int64_t>& head_sizes) {
  const Tensor x = tokens("pack_heads", x_BSHD);
  const auto plan = layout("pack_heads", "head sizes", x.size(0) * x.size(1), head_sizes, x.size(3) * x.element_size());
  check_sum("pack_heads", "head sizes", head_sizes, plan.split, x.size(2));
  Tensor flat = at::empty({x.numel()}, x.options());
  move_rows("shardproof::pack_heads", plan, x, flat, true);
  return flat;
}

Tensor unpack_sequence(const Tensor& flat, int64_t B, const std::vector<int64_t>& lengths, int64_t h, int64_t D) {
  const auto plan = layout("unpack_sequence", "lengths", B, lengths, h * D * element_size(flat));
  const Tensor chunks = buffer("unpack_sequence", flat, {B, plan.split, h, D});
  Tensor out = at::empty({B, plan.split, h, D}, flat.options());
  move_rows("shardproof::unpack_sequence", plan, out, chunks, false);
  return out;
}

Tensor pack_sequence(const Tensor& x_BSHD, const std::vector<int64_t>& lengths) {
  const Tensor x = tokens("pack_sequence", x_BSHD);
  const auto plan = layout("pack_sequence", "lengths", x.size(0), lengths, x.size(2) * x.size(3) * x.element_size());
  check_sum("pack_sequence", "lengths", lengths, plan.split, x.size(1));
  Tensor flat = at::empty({x.numel()}, x.options());
  move_rows("shardproof::pack_sequence", plan, x, flat, true);
  return flat;
}

Tensor unpack_heads(const Tensor& flat, int64_t B, int64_t S, const std::vector<int64_t>& head_sizes, int64_t D) {
  const auto plan = layout("unpack_heads", "head sizes", B * S, head_sizes, D * element_size(flat));
  const Tensor chunks = buffer("unpack_heads", flat, {B, S, plan.split, D});
  Tensor out = at::empty({B, S, plan.split, D}, flat.options());
  move_rows("shardproof::unpack_heads", plan, out, chunks, false);
  return out;
}

}  // namespace shardproof
