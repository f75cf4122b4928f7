#include "harness/inputs.hpp"
#include "harness/subject_family.hpp"
#include "models/flux1.hpp"
#include "reference/flux1.hpp"

namespace shardproof {
namespace {

/// Position ids as FLUX.1's pipeline makes them, (0, row, column).
Tensor image_ids(const Shape& shape) {
  const Tensor grid = grid_positions(shape.height, shape.width);
  return at::stack({at::zeros_like(grid[0]), grid[0], grid[1]}, 1);
}

/// Text ids are zeros in FLUX.1's own pipeline, which would hide ids that were not split; these are distinct.
Tensor text_ids(int64_t tokens) {
  const Tensor index = at::arange(tokens, at::kDouble);
  return at::stack({index + 1, 2 * index + 3, 3 * index + 2}, 1);
}

NamedTensors make_inputs(const Flux1Config& config, const Shape& shape, const std::string& family, uint64_t seed,
                         double guidance) {
  const auto normal = [&](const char* name, std::vector<int64_t> sizes) {
    return normal_per_prompt(shape.batch, sizes, seed, name);
  };
  NamedTensors inputs{
      {"hidden_states", shaped_tokens(normal("hidden_states", {shape.image_tokens(), config.in_channels}), family)},
      {"encoder_hidden_states",
       shaped_tokens(normal("encoder_hidden_states", {shape.text_tokens, config.joint_attention_dim}), family)},
      {"pooled_projections", normal("pooled_projections", {config.pooled_projection_dim})},
      {"timestep", exact_timesteps(shape.batch)},
      {"img_ids", image_ids(shape)},
      {"txt_ids", text_ids(shape.text_tokens)}};
  if (config.guidance_embeds) inputs["guidance"] = at::full({shape.batch}, guidance, at::kDouble);
  return inputs;
}

}  // namespace

SubjectFamily subject_family(const std::string& name, const Flux1Config& config) {
  SubjectFamily family{flux1_spec(name, config),
                       [config](NamedTensors weights) {
                         return std::make_unique<ReferenceOracle<reference::Flux1>>(reference::Flux1(config, std::move(weights)));
                       },
                       [config](const Shape& shape, const std::string& inputs, uint64_t seed, double guidance) {
                         return make_inputs(config, shape, inputs, seed, guidance);
                       },
                       {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"}};
  if (config.guidance_embeds) family.input_names.push_back("guidance");
  return family;
}

}  // namespace shardproof
