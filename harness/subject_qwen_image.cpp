#include "harness/inputs.hpp"
#include "harness/subject_family.hpp"
#include "models/qwen_image.hpp"
#include "reference/qwen_image.hpp"

#include <algorithm>

namespace shardproof {
namespace {

/// Positions as Qwen-Image makes them of an image's shape, (frame 0, row, column): rows and columns counted from the middle.
Tensor image_ids(const Shape& shape) {
  const Tensor grid = grid_positions(shape.height, shape.width);
  const int64_t above = shape.height - shape.height / 2, left = shape.width - shape.width / 2;
  return at::stack({at::zeros_like(grid[0]), grid[0] - above, grid[1] - left}, 1);
}

/// Text goes on after the image's largest position, the same on every axis.
Tensor text_ids(const Shape& shape) {
  const Tensor position = at::arange(shape.text_tokens, at::kDouble) + std::max(shape.height / 2, shape.width / 2);
  return at::stack({position, position, position}, 1);
}

NamedTensors make_inputs(const QwenImageConfig& config, const Shape& shape, const std::string& family, uint64_t seed) {
  const auto normal = [&](const char* name, std::vector<int64_t> sizes) {
    return normal_per_prompt(shape.batch, sizes, seed, name);
  };
  return {{"hidden_states", shaped_tokens(normal("hidden_states", {shape.image_tokens(), config.in_channels}), family)},
          {"encoder_hidden_states",
           shaped_tokens(normal("encoder_hidden_states", {shape.text_tokens, config.joint_attention_dim}), family)},
          {"timestep", exact_timesteps(shape.batch)},
          {"img_ids", image_ids(shape)},
          {"txt_ids", text_ids(shape)}};
}

}  // namespace

SubjectFamily subject_family(const std::string& name, const QwenImageConfig& config) {
  return {qwen_image_spec(name, config),
          [config](NamedTensors weights) {
            return std::make_unique<ReferenceOracle<reference::QwenImage>>(reference::QwenImage(config, std::move(weights)));
          },
          [config](const Shape& shape, const std::string& inputs, uint64_t seed, double /*guidance: there is none*/) {
            return make_inputs(config, shape, inputs, seed);
          },
          {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"}};
}

}  // namespace shardproof
