#include "kernels/attention_inputs.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/views.hpp"

#include <cmath>

namespace shardproof {
namespace {

Tensor check_mask(std::string_view backend, const Tensor& mask, int64_t batch, int64_t keys) {
  if (!mask.defined() || mask.scalar_type() != at::kBool)
    fail_input(backend, "the key mask is {}; bool is needed", mask.defined() ? dtype_name(mask.scalar_type()) : "undefined");
  const std::vector<int64_t> flat{batch, keys}, broadcast{batch, 1, 1, keys};
  if (mask.sizes() != at::IntArrayRef(flat) && mask.sizes() != at::IntArrayRef(broadcast))
    fail_input(backend, "the key mask is {}; accepted: {} or {}", shape_text(mask.sizes()), shape_text(flat),
               shape_text(broadcast));
  return mask.reshape({batch, keys}).contiguous();
}

Tensor dense_heads(const Tensor& x) { return x.stride(3) == 1 || x.size(3) == 1 ? x : x.contiguous(); }

}  // namespace

double AttentionInputs::scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
int64_t AttentionInputs::group() const { return heads / kv_heads; }
at::ScalarType AttentionInputs::compute() const { return accumulate_dtype(dtype()); }

AttentionInputs check_attention(std::string_view backend, const Tensor& q, const Tensor& k, const Tensor& v,
                                const std::optional<Tensor>& key_mask) {
  check_float(backend, "q", q);
  if (q.dim() != 4 || q.size(2) == 0 || q.size(3) == 0)
    fail_input(backend, "q is {}; [B, S, H, D] with heads and a head dim is needed", shape_text(q.sizes()));
  check_float(backend, "k", k);
  if (k.dim() != 4 || k.size(0) != q.size(0) || k.size(3) != q.size(3) || k.size(2) == 0)
    fail_input(backend, "k is {}; [{}, T, K, {}] is needed for q {}", shape_text(k.sizes()), q.size(0), q.size(3),
               shape_text(q.sizes()));
  check_operand(backend, "k", k, q.scalar_type(), k.sizes());
  check_operand(backend, "v", v, q.scalar_type(), k.sizes());
  if (q.size(2) % k.size(2)) fail_input(backend, "{} query heads are not divisible by {} key/value heads", q.size(2), k.size(2));
  AttentionInputs inputs{dense_heads(q), dense_heads(k), dense_heads(v), {},        q.size(0),
                         q.size(1),      k.size(1),      q.size(2),      k.size(2), q.size(3)};
  if (key_mask) inputs.mask_BT = check_mask(backend, *key_mask, inputs.batch, inputs.keys);
  return inputs;
}

Attended empty_attended(const AttentionInputs& inputs, bool keep_accumulator) {
  const auto lse = at::empty({inputs.batch, inputs.queries, inputs.heads}, inputs.compute());
  return {
      at::empty({inputs.batch, inputs.queries, inputs.heads, inputs.width}, keep_accumulator ? inputs.compute() : inputs.dtype()),
      lse};
}

AttendedKeys attended_keys(const AttentionInputs& inputs) {
  if (!inputs.mask_BT.defined())
    return {at::arange(inputs.keys, at::kLong).expand({inputs.batch, inputs.keys}).contiguous(),
            at::full({inputs.batch}, inputs.keys, at::kLong)};
  return {at::argsort(inputs.mask_BT, /*stable=*/true, /*dim=*/1, /*descending=*/true).contiguous(), inputs.mask_BT.sum(1)};
}

}  // namespace shardproof
