#pragma once

#include "kernels/attention_backend.hpp"

/// What the attention backends share: checks, and one factory each. For the sources of this folder.
namespace shardproof {

/// Checked arguments of AttentionBackend::forward.
struct AttentionInputs {
  Tensor q_BSHD, k_BTHD, v_BTHD;  ///< last dim contiguous, other strides as given
  Tensor mask_BT;                 ///< bool, contiguous; undefined without a mask
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, width = 0;

  double scale() const;   ///< 1/√D
  int64_t group() const;  ///< query heads that share a key/value head
  at::ScalarType dtype() const { return q_BSHD.scalar_type(); }
  at::ScalarType compute() const;  ///< fp64 for fp64, else fp32
};

/// Input Error from `backend` when the arguments do not fit together.
AttentionInputs check_attention(std::string_view backend, const Tensor& q_BSHD, const Tensor& k_BTHD, const Tensor& v_BTHD,
                                const std::optional<Tensor>& key_mask_BT);

/// Uninitialised results: out in the inputs' dtype, or the arithmetic's with `keep_accumulator`.
Attended empty_attended(const AttentionInputs& inputs, bool keep_accumulator);

/// Per batch item, the indices of the keys to attend to come first, in order. Kernels then visit only those:
/// no test in the inner loop, and nothing a masked key holds (even NaN) can reach the result.
struct AttendedKeys {
  Tensor order_BT;  ///< int64
  Tensor count_B;   ///< int64, how many of them
};
AttendedKeys attended_keys(const AttentionInputs& inputs);

std::unique_ptr<AttentionBackend> make_kokkos_naive();
std::unique_ptr<AttentionBackend> make_kokkos_flash();
std::unique_ptr<AttentionBackend> make_aten_flash();
std::unique_ptr<AttentionBackend> make_aten_math();
std::unique_ptr<AttentionBackend> make_aten_efficient();
std::unique_ptr<AttentionBackend> make_aten_cudnn();

}  // namespace shardproof
