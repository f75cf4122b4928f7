#include "harness/inputs.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

#include <algorithm>
#include <sstream>

namespace shardproof {
namespace {

/// A ramp along dim 1, shaped to broadcast over `like`.
Tensor ramp(const Tensor& like, double first, double last) {
  std::vector<int64_t> shape(like.dim(), 1);
  shape[1] = like.size(1);
  return at::linspace(first, last, like.size(1), at::kDouble).view(shape);
}

}  // namespace

const std::vector<std::string>& input_families() {
  static const std::vector<std::string> names{"randn", "structured", "negative_logits"};
  return names;
}

std::vector<std::string> parse_families(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    const auto& known = input_families();
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail_input("inputs", "unknown input family \"{}\"; accepted: {}", name, fmt::join(known, ", "));
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  if (result.empty()) fail_input("inputs", "no input family given; accepted: {}", fmt::join(input_families(), ", "));
  return result;
}

Tensor normal_per_prompt(int64_t batch, at::IntArrayRef sizes, uint64_t seed, const std::string& name) {
  std::vector<Tensor> prompts;
  for (int64_t prompt = 0; prompt < batch; ++prompt)
    prompts.push_back(seeded_normal(sizes, seed, fmt::format("{}/{}", name, prompt)));
  return at::stack(prompts);
}

Tensor exact_timesteps(int64_t batch) { return at::pow(2.0, -(at::arange(batch, at::kDouble) + 1).remainder(4)); }

Tensor grid_positions(int64_t height, int64_t width) {
  const Tensor rows = at::arange(height, at::kDouble).repeat_interleave(width),
               columns = at::arange(width, at::kDouble).repeat({height});
  return at::stack({rows, columns});
}

Tensor shaped_tokens(const Tensor& x, const std::string& family) {
  if (family == "randn") return x;
  const Tensor structured = x * ramp(x, 0.3, 2.0) + ramp(x, -1.0, 1.0);
  return family == "structured" ? structured : structured - 0.7;
}

Tensor padded_mask(int64_t batch, int64_t text_tokens) {
  Tensor mask = at::zeros({batch, text_tokens}, at::kBool);
  for (int64_t prompt = 0; prompt < batch; ++prompt) {
    const int64_t length = std::max<int64_t>(1, text_tokens * 2 / (3 + 2 * prompt));  // 2/3, 2/5, 2/7, … of the tokens
    mask[prompt].narrow(0, 0, length).fill_(true);
  }
  return mask;
}

NamedTensors attention_inputs(at::IntArrayRef q_shape, at::IntArrayRef kv_shape, const std::string& family, uint64_t seed,
                              const std::string& name) {
  Tensor q = seeded_normal(q_shape, seed, name + ".q"), k = seeded_normal(kv_shape, seed, name + ".k"),
         v = seeded_normal(kv_shape, seed, name + ".v");
  if (family != "randn") {
    q = q * 1.5;
    k = k * ramp(k, 0.3, 2.0);
    v = v + ramp(v, -1.0, 1.0);
  }
  if (family == "negative_logits") {
    q = q + 0.7;
    k = k - 0.7;
  }
  return {{"q", q}, {"k", k}, {"v", v}};
}

}  // namespace shardproof
