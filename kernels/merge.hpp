#pragma once

#include "kernels/attention_backend.hpp"

namespace shardproof {

/// Merges attention over one set of keys with attention over another, disjoint one:
///
///     m = max(lse, lse'),  w = exp(lse - m),  w' = exp(lse' - m)
///     out = (w out + w' out') / (w + w'),     lse = m + log(w + w')
///
/// The maximum goes first so that nothing overflows, however far apart the two are (FlashAttention-2, section
/// 3.1; ring attention). A side whose lse is -inf has seen no key and its out is not read; with both sides at
/// -inf the result is out 0, lse -inf.
///
/// `into.out_BSHD` keeps its dtype and is rounded to it at every merge: fp32 (fp64) for exact merging, bf16 or
/// fp16 for the mode in which partials are not kept in fp32. `other.out_BSHD` may have another dtype. Both
/// lse [B, S, H] are fp32, or both fp64. Written in place when `into`'s tensors are contiguous, otherwise
/// `into` gets new ones. Input Error on shapes or dtypes that do not fit.
void merge_partial(Attended& into, const Attended& other);

}  // namespace shardproof
