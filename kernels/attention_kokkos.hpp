#pragma once

#include "kernels/attention_inputs.hpp"
#include "kernels/exec.hpp"
#include "kernels/views.hpp"

namespace shardproof {

/// What the Kokkos backends' forward have in common. `attend` is called as attend.operator()<T, R>(inputs, keys, result): T is
/// the inputs' type, R the result's.
template <class Attend>
Attended run_kokkos_attention(std::string_view backend, const Tensor& q, const Tensor& k, const Tensor& v,
                              const std::optional<Tensor>& mask, bool keep_accumulator, Attend attend) {
  const auto inputs = check_attention(backend, q, k, v, mask);
  ensure_kokkos();
  const Attended result = empty_attended(inputs, keep_accumulator);
  if (result.out_BSHD.numel() == 0) return result;
  const auto keys = attended_keys(inputs);
  visit_float(inputs.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (keep_accumulator)
      attend.template operator()<T, AccumulateOf<T>>(inputs, keys, result);
    else
      attend.template operator()<T, T>(inputs, keys, result);
  });
  return result;
}

}  // namespace shardproof
