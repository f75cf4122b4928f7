#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <vector>

namespace shardproof {

/// The data movement on both sides of an Ulysses all-to-all. A flat buffer is the concatenation of one
/// contiguous chunk per rank, in rank order, so that it can be sent (or was received) as it lies. Sizes may be
/// uneven or zero; any dtype. Values are moved, never changed. Input Error when sizes do not add up.

/// Before "sequence shard to head shard": x [B, S, H, D] to a flat buffer whose chunk j is x[:, :, heads of j, :],
/// [B, S, head_sizes[j], D].
Tensor pack_heads(const Tensor& x_BSHD, const std::vector<int64_t>& head_sizes);

/// After it: chunk j is rank j's tokens for this rank's h heads, [B, lengths[j], h, D]; returns
/// [B, Σ lengths, h, D].
Tensor unpack_sequence(const Tensor& flat, int64_t B, const std::vector<int64_t>& lengths, int64_t h, int64_t D);

/// Before the way back: x [B, S, h, D] to a flat buffer whose chunk j is x[:, tokens of j], [B, lengths[j], h, D].
Tensor pack_sequence(const Tensor& x_BSHD, const std::vector<int64_t>& lengths);

/// After the way back: chunk j is the heads of rank j for this rank's S tokens, [B, S, head_sizes[j], D];
/// returns [B, S, Σ head_sizes, D].
Tensor unpack_heads(const Tensor& flat, int64_t B, int64_t S, const std::vector<int64_t>& head_sizes, int64_t D);

}  // namespace shardproof
