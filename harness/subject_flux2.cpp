#include "harness/inputs.hpp"
#include "harness/subject_family.hpp"
#include "models/flux2.hpp"
#include "reference/flux2.hpp"

namespace shardproof {
namespace {

/// Position ids as FLUX.2's pipeline makes them for one image, (frame 0, row, column, layer 0).
Tensor image_ids(const Shape& shape) {
  const Tensor grid = grid_positions(shape.height, shape.width);
  const Tensor zero = at::zeros_like(grid[0]);
  return at::stack({zero, grid[0], grid[1], zero}, 1);
}

/// Text ids are (0, 0, 0, position) in the pipeline, which would hide a wrong axis; here every axis tells tokens apart.
Tensor text_ids(int64_t tokens) {
  const Tensor index = at::arange(tokens, at::kDouble);
  return at::stack({index + 1, 2 * index + 3, 3 * index + 2, 5 * index + 4}, 1);
}

NamedTensors make_inputs(const Flux2Config& config, const Shape& shape, const std::string& family, uint64_t seed,
                         double guidance) {
  const auto normal = [&](const char* name, std::vector<int64_t> sizes) {
    return normal_per_prompt(shape.batch, sizes, seed, name);
  };
  NamedTensors inputs{
      {"hidden_states", shaped_tokens(normal("hidden_states", {shape.image_tokens(), config.in_channels}), family)},
      {"encoder_hidden_states",
       shaped_tokens(normal("encoder_hidden_states", {shape.text_tokens, config.joint_attention_dim}), family)},
      {"timestep", exact_timesteps(shape.batch)},
      {"img_ids", image_ids(shape)},
      {"txt_ids", text_ids(shape.text_tokens)}};
  if (config.guidance_embeds) inputs["guidance"] = at::full({shape.batch}, guidance, at::kDouble);
  return inputs;
}

}  // namespace

SubjectFamily subject_family(const std::string& name, const Flux2Config& config) {
  SubjectFamily family{flux2_spec(name, config),
                       [config](NamedTensors weights) {
                         return std::make_unique<ReferenceOracle<reference::Flux2>>(reference::Flux2(config, std::move(weights)));
                       },
                       [config](const Shape& shape, const std::string& inputs, uint64_t seed, double guidance) {
                         return make_inputs(config, shape, inputs, seed, guidance);
                       },
                       {"hidden_states", "encoder_hidden_states", "timestep", "img_ids", "txt_ids"}};
  if (config.guidance_embeds) family.input_names.push_back("guidance");
  return family;
}

}  // namespace shardproof
