#include "models/key_mask.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace shardproof {

std::optional<Tensor> joint_key_mask(const NamedTensors& inputs) {
  const auto found = inputs.find("encoder_hidden_states_mask");
  if (found == inputs.end()) return std::nullopt;
  const Tensor& mask = found->second;
  const Tensor &text = inputs.at("encoder_hidden_states"), &image = inputs.at("hidden_states");
  const std::vector<int64_t> flat{text.size(0), text.size(1)}, broadcast{text.size(0), 1, 1, text.size(1)};
  if (mask.scalar_type() != at::kBool)
    fail_input("mask", "encoder_hidden_states_mask is {}; accepted: bool", c10::toString(mask.scalar_type()));
  if (mask.sizes() != at::IntArrayRef(flat) && mask.sizes() != at::IntArrayRef(broadcast))
    fail_input("mask", "encoder_hidden_states_mask is {}; accepted: {} or {}", shape_text(mask.sizes()), shape_text(flat), shape_text(broadcast));
  return at::cat({mask.reshape(flat), at::ones({image.size(0), image.size(1)}, at::kBool)}, 1);
}

}  // namespace shardproof
