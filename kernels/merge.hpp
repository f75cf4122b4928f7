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
/// `into`'s tensors keep their dtypes and are rounded to them at every merge: fp32 (fp64) for exact merging, bf16 or
/// fp16 for the mode in which partials are not kept in fp32; the arithmetic is fp32 or, when the lse is fp64, fp64.
/// `other.out_BSHD` may have another dtype than `into`'s, its lse [B, S, H] may not. Written in place where `into`'s
/// tensors are contiguous and its lse fp32 or fp64, otherwise `into` gets new ones. Input Error on shapes or dtypes
/// that do not fit.
void merge_partial(Attended& into, const Attended& other);

}  // namespace shardproof
