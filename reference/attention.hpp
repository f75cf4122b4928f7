#pragma once

#include "core/named_tensors.hpp"

#include <optional>

namespace shardproof::reference {

/// Which keys every query attends to, bool [B, T], true = attend; absent: all of them.
using KeyMask = std::optional<Tensor>;

/// softmax(q kᵀ / sqrt(D)) v over the keys of the mask. q [B, S, H, D], k and v [B, T, H, D] → [B, S, H, D].
Tensor attention(const Tensor& q_BSHD, const Tensor& k_BTHD, const Tensor& v_BTHD, const KeyMask& mask_BT);

/// The mask over [text ; image] tokens, from the model's inputs: `encoder_hidden_states_mask` [B, T] for the text, and
/// every image token.
KeyMask joint_key_mask(const NamedTensors& inputs);

/// A module's own `key_mask` input, where it is given.
KeyMask given_key_mask(const NamedTensors& inputs);

}  // namespace shardproof::reference
