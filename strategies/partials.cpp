#include "strategies/partials.hpp"

#include "core/dtype.hpp"
#include "kernels/merge.hpp"

namespace shardproof {

Partials::Partials(AttentionBackend& local, const Tensor& q_BSHD, bool convert_to_fp32)
    : local_(local), q_BSHD_(q_BSHD), convert_to_fp32_(convert_to_fp32) {}

void Partials::add(const Tensor& k_BTHD, const Tensor& v_BTHD, const std::optional<Tensor>& key_mask_BT) {
  Attended partial = local_.forward(q_BSHD_, k_BTHD, v_BTHD, key_mask_BT, convert_to_fp32_);
  partial.out_BSHD = partial.out_BSHD.to(accumulate_dtype(q_BSHD_.scalar_type()));
  if (sum_.out_BSHD.defined())
    merge_partial(sum_, partial);
  else
    sum_ = partial;
}

Attended Partials::result(bool keep_accumulator) const {
  return {keep_accumulator ? sum_.out_BSHD : sum_.out_BSHD.to(q_BSHD_.scalar_type()), sum_.lse_BSH};
}

}  // namespace shardproof
