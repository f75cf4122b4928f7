#pragma once

#include "kernels/attention_backend.hpp"

namespace shardproof {

/// Attention over one chunk of keys after the other, for the ring strategies: each partial result is merged into the sum
/// of those before by its log-sum-exp (kernels/merge.hpp).
class Partials {
 public:
  /// `local` and `q` outlive it. Partials stay in the arithmetic's dtype. With `convert_to_fp32` off (diffusers' option) each
  /// chunk's result is rounded to q's dtype before it is merged; the log-sum-exp is fp32 in any case, as backends give it.
  Partials(AttentionBackend& local, const Tensor& q_BSHD, bool convert_to_fp32);

  /// Attends to a chunk. `key_mask_BT` belongs to this chunk's keys.
  void add(const Tensor& k_BTHD, const Tensor& v_BTHD, const std::optional<Tensor>& key_mask_BT);

  /// What all chunks so far give, in q's dtype or the arithmetic's.
  Attended result(bool keep_accumulator) const;

 private:
  AttentionBackend& local_;
  const Tensor& q_BSHD_;
  bool convert_to_fp32_;
  Attended sum_;
};

}  // namespace shardproof
