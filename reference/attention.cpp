#include "reference/attention.hpp"

#include <cmath>
#include <limits>

namespace shardproof::reference {

Tensor attention(const Tensor& q_BSHD, const Tensor& k_BTHD, const Tensor& v_BTHD, const KeyMask& mask_BT) {
  const double scale = 1 / std::sqrt(static_cast<double>(q_BSHD.size(3)));
  const Tensor out = at::empty(q_BSHD.sizes(), q_BSHD.options());
  // Some queries of one head of one item at a time: the scores of all of a real image would fill the memory.
  constexpr int64_t at_once = 256;
  for (int64_t b = 0; b < q_BSHD.size(0); ++b)
    for (int64_t h = 0; h < q_BSHD.size(2); ++h)
      for (int64_t s = 0; s < q_BSHD.size(1); s += at_once) {
        const Tensor q = q_BSHD[b].select(1, h).slice(0, s, s + at_once), k = k_BTHD[b].select(1, h), v = v_BTHD[b].select(1, h);
        Tensor logits = at::matmul(q, k.t()) * scale;
        if (mask_BT) logits = logits.masked_fill(mask_BT.value()[b].logical_not(), -std::numeric_limits<double>::infinity());
        out[b].select(1, h).slice(0, s, s + at_once).copy_(at::matmul(at::softmax(logits, -1), v));
      }
  return out;
}

KeyMask joint_key_mask(const NamedTensors& inputs) {
  const auto text = inputs.find("encoder_hidden_states_mask");
  if (text == inputs.end()) return std::nullopt;
  const Tensor& image = inputs.at("hidden_states");
  return at::cat({text->second, at::ones({image.size(0), image.size(1)}, at::kBool)}, 1);
}

KeyMask given_key_mask(const NamedTensors& inputs) {
  const auto mask = inputs.find("key_mask");
  return mask == inputs.end() ? std::nullopt : KeyMask(mask->second);
}

}  // namespace shardproof::reference
