#pragma once

#include "core/tensor.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// Attention over some of the keys, with what is needed to merge it with the rest (kernels/merge.hpp).
struct Attended {
  Tensor out_BSHD;  ///< softmax(scale · q kᵀ) v over the keys seen; 0 where every key is masked
  Tensor lse_BSH;   ///< natural log of Σ exp(scale · q·k), fp32 (fp64 for fp64 inputs); -inf where every key is masked
};

/// What a backend can do; whoever needs more refuses it when it is chosen (strategies/attention_choice.hpp).
struct AttentionTraits {
  bool lse = false;   ///< returns a log-sum-exp, which the ring strategies need
  bool mask = false;  ///< takes a key mask
  bool gqa = false;   ///< takes fewer key/value heads than query heads
  bool fp32_partials = true;  ///< `keep_accumulator` keeps what rounding would lose; otherwise partials are rounded first
  std::vector<at::ScalarType> dtypes{at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  std::string device = "cpu";                              ///< where its tensors live
  std::string native_lse = "[B, S, H], natural log, fp32";  ///< what the adapter turns into Attended::lse_BSH's form
};

/// Attention over the tokens this rank can see. Backends are interchangeable and hold no state between calls.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  virtual std::string_view name() const = 0;
  virtual AttentionTraits traits() const = 0;

  /// q [B, S, H, D], k and v [B, T, K, D] of one dtype (fp64, fp32, bf16, fp16), any strides. K divides H and
  /// query head h uses key/value head h / (H / K). The scale is 1/√D. T = 0 is a fully masked row.
  /// `key_mask_BT`: bool [B, T] (or [B, 1, 1, T]), true = attend; the same for every query and head.
  /// Arithmetic in fp64 for fp64 inputs, otherwise fp32. `out_BSHD` has the inputs' dtype, or with
  /// `keep_accumulator` the arithmetic's, so that partials can be merged without a rounding each.
  /// Input Error on any other shape or dtype.
  virtual Attended forward(const Tensor& q_BSHD, const Tensor& k_BTHD, const Tensor& v_BTHD,
                           const std::optional<Tensor>& key_mask_BT, bool keep_accumulator = false) = 0;
};

/// A backend by our name or by diffusers' ("native", "_native_flash", "_native_math", "_native_efficient", "_native_cudnn").
/// Input Error that lists the names when it is unknown, and says so when it is one of diffusers' that is not here ("sage").
std::unique_ptr<AttentionBackend> make_attention_backend(std::string_view name);

/// Our names, in the order of lists.
std::vector<std::string> attention_backend_names();

}  // namespace shardproof
