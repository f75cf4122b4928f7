#pragma once

#include "core/named_tensors.hpp"

#include <optional>

namespace shardproof {

/// Which of this rank's keys [text ; image] every query attends to, bool [B, T + S]: the input `encoder_hidden_states_mask`
/// (bool [B, T] or [B, 1, 1, T], true = attend) for the text, and every image token. Nothing where the input is absent.
/// Input Error on another dtype or shape.
std::optional<Tensor> joint_key_mask(const NamedTensors& inputs);

}  // namespace shardproof
