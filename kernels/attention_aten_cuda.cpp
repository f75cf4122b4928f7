#include "kernels/attention_inputs.hpp"

#include <limits>

namespace shardproof {
namespace {

/// [B, T, K, D] to [B, H, T, D], key/value heads repeated for their query heads.
Tensor by_head(const Tensor& x_BTHD, int64_t repeat) { return (repeat == 1 ? x_BTHD : x_BTHD.repeat_interleave(repeat, 2)).transpose(1, 2); }

/// 0 or -inf, added to the scores, [B, H, S, T].
std::optional<Tensor> bias_of(const AttentionInputs& in) {
  if (!in.mask_BT.defined()) return std::nullopt;
  const Tensor zeros = at::zeros({in.batch, 1, 1, in.keys}, in.q_BSHD.options());
  return zeros.masked_fill_(in.mask_BT.logical_not().view({in.batch, 1, 1, in.keys}), -std::numeric_limits<double>::infinity())
      .expand({in.batch, in.heads, in.queries, in.keys});
}

/// [B, H, S or more, ...] to [B, S, H]: kernels pad the queries, or leave a dim of 1 at the end.
Tensor adapted_lse(const Tensor& lse, const AttentionInputs& in) {
  return lse.reshape({in.batch, in.heads, -1}).narrow(2, 0, in.queries).transpose(1, 2).contiguous();
}

Attended adapted(const Tensor& out_BHSD, const Tensor& lse, const AttentionInputs& in, bool keep_accumulator) {
  return {out_BHSD.transpose(1, 2).contiguous().to(keep_accumulator ? in.compute() : in.dtype()), adapted_lse(lse, in)};
}

/// LibTorch's memory-efficient attention (xFormers' kernels). On CUDA tensors only.
class AtenEfficient final : public AttentionBackend {
 public:
  std::string_view name() const override { return "aten_efficient"; }
  AttentionTraits traits() const override {
    return {.lse = true,
            .mask = true,
            .gqa = true,
            .fp32_partials = false,
            .dtypes = {at::kFloat, at::kBFloat16, at::kHalf},
            .device = "cuda",
            .native_lse = "[B, H, S padded to 32], natural log, fp32"};
  }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    const auto in = check_attention(name(), q, k, v, mask);
    const auto [out, lse, seed, offset] = at::_scaled_dot_product_efficient_attention(
        by_head(in.q_BSHD, 1), by_head(in.k_BTHD, in.group()), by_head(in.v_BTHD, in.group()), bias_of(in), true, 0.0, false, in.scale());
    return adapted(out, lse, in, keep_accumulator);
  }
};

/// cuDNN's fused attention through LibTorch. On CUDA tensors only.
class AtenCudnn final : public AttentionBackend {
 public:
  std::string_view name() const override { return "aten_cudnn"; }
  AttentionTraits traits() const override {
    return {.lse = true,
            .mask = true,
            .gqa = true,
            .fp32_partials = false,
            .dtypes = {at::kBFloat16, at::kHalf},
            .device = "cuda",
            .native_lse = "[B, H, S, 1], natural log, fp32"};
  }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    const auto in = check_attention(name(), q, k, v, mask);
    const auto result = at::_scaled_dot_product_cudnn_attention(by_head(in.q_BSHD, 1), by_head(in.k_BTHD, in.group()), by_head(in.v_BTHD, in.group()),
                                                                bias_of(in), true, 0.0, false, false, in.scale());
    return adapted(std::get<0>(result), std::get<1>(result), in, keep_accumulator);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_aten_efficient() { return std::make_unique<AtenEfficient>(); }
std::unique_ptr<AttentionBackend> make_aten_cudnn() { return std::make_unique<AtenCudnn>(); }

}  // namespace shardproof
