#include "kernels/attention_inputs.hpp"

#include <limits>

namespace shardproof {
namespace {

/// [B, T, K, D] to [B, H, T, D], key/value heads repeated for their query heads.
Tensor by_head(const Tensor& x_BTHD, int64_t repeat) {
  return (repeat == 1 ? x_BTHD : x_BTHD.repeat_interleave(repeat, 2)).transpose(1, 2);
}

/// LibTorch's CPU flash attention. It returns no fp32 result for bf16 and fp16 inputs, so with
/// `keep_accumulator` the rounded result is widened: partials lose what the Kokkos kernels keep.
class AtenFlash final : public AttentionBackend {
 public:
  std::string_view name() const override { return "aten_flash"; }
  AttentionTraits traits() const override { return {.lse = true, .mask = true, .gqa = true, .fp32_partials = false, .native_lse = "[B, H, S], natural log, fp32"}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                   bool keep_accumulator) override {
    const auto in = check_attention(name(), q, k, v, mask);
    if (in.keys == 0 || in.batch == 0 || in.queries == 0) return nothing_seen(in, keep_accumulator);
    std::optional<Tensor> bias;  // 0 or -inf, added to the scores
    if (in.mask_BT.defined())
      bias = at::zeros({in.batch, 1, 1, in.keys}, in.dtype())
                 .masked_fill_(in.mask_BT.logical_not().view({in.batch, 1, 1, in.keys}), -std::numeric_limits<double>::infinity())
                 .expand({in.batch, 1, in.queries, in.keys});
    auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        by_head(in.q_BSHD, 1), by_head(in.k_BTHD, in.group()), by_head(in.v_BTHD, in.group()), 0.0, false, bias, in.scale());
    Attended result{out.transpose(1, 2).contiguous().to(keep_accumulator ? in.compute() : in.dtype()),
                    lse.transpose(1, 2).contiguous().to(in.compute())};
    if (in.mask_BT.defined()) blank_unseen(in, result);
    return result;
  }

 private:
  static Attended nothing_seen(const AttentionInputs& in, bool keep_accumulator) {
    const Attended result = empty_attended(in, keep_accumulator);
    result.out_BSHD.zero_();
    result.lse_BSH.fill_(-std::numeric_limits<double>::infinity());
    return result;
  }

  /// Where every key of a batch item is masked, LibTorch's log-sum-exp is not -inf.
  static void blank_unseen(const AttentionInputs& in, Attended& result) {
    const Tensor unseen = in.mask_BT.any(1).logical_not();
    result.out_BSHD.masked_fill_(unseen.view({in.batch, 1, 1, 1}), 0);
    result.lse_BSH.masked_fill_(unseen.view({in.batch, 1, 1}), -std::numeric_limits<double>::infinity());
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_aten_flash() { return std::make_unique<AtenFlash>(); }

}  // namespace shardproof
