#include "kernels/attention_inputs.hpp"

#include <limits>

namespace shardproof {
namespace {

/// [B, T, K, D] to [B, H, T, D] in the arithmetic's dtype, key/value heads repeated for their query heads.
Tensor by_head(const Tensor& x_BTHD, const AttentionInputs& inputs, int64_t repeat) {
  return x_BTHD.to(inputs.compute()).repeat_interleave(repeat, 2).transpose(1, 2);
}

/// Attention written in ATen, with the whole score matrix in memory.
class AtenMath final : public AttentionBackend {
 public:
  std::string_view name() const override { return "aten_math"; }
  AttentionTraits traits() const override { return {.lse = true, .mask = true, .gqa = true}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                   bool keep_accumulator) override {
    const auto in = check_attention(name(), q, k, v, mask);
    Tensor scores = at::matmul(by_head(in.q_BSHD, in, 1) * in.scale(), by_head(in.k_BTHD, in, in.group()).transpose(2, 3));
    if (in.mask_BT.defined())
      scores.masked_fill_(in.mask_BT.logical_not().view({in.batch, 1, 1, in.keys}), -std::numeric_limits<double>::infinity());
    const Tensor lse = at::logsumexp(scores, {-1});
    // Where every key is masked the softmax is 0/0; such a row has seen nothing and is 0.
    const Tensor weights = at::exp(scores - lse.masked_fill(lse.isinf(), 0).unsqueeze(-1));
    const Tensor out = at::matmul(weights, by_head(in.v_BTHD, in, in.group())).transpose(1, 2).contiguous();
    return {out.to(keep_accumulator ? in.compute() : in.dtype()), lse.transpose(1, 2).contiguous()};
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_aten_math() { return std::make_unique<AtenMath>(); }

}  // namespace shardproof
