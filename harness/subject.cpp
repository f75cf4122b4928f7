#include "harness/subject.hpp"

#include "core/error.hpp"
#include "core/model_config.hpp"
#include "core/random.hpp"
#include "harness/inputs.hpp"
#include "harness/shared_weights.hpp"
#include "models/checkpoint.hpp"
#include "models/flux1.hpp"
#include "models/synthetic_weights.hpp"
#include "reference/flux1.hpp"

namespace shardproof {
namespace {

class Flux1Oracle final : public Oracle {
 public:
  explicit Flux1Oracle(reference::Flux1 model) : model_(std::move(model)) {}
  Tensor forward(const NamedTensors& inputs) const override { return model_.forward(inputs); }
  Tensor denoise(const NamedTensors& inputs, int64_t steps) const override { return model_.denoise(inputs, steps); }
  NamedTensors run_module(const std::string& name, const NamedTensors& inputs) const override { return model_.run_module(name, inputs); }

 private:
  reference::Flux1 model_;
};

/// Position ids as FLUX.1's pipeline makes them, (0, row, column).
Tensor image_ids(const Shape& shape) {
  Tensor ids = at::zeros({shape.height, shape.width, 3}, at::kDouble);
  ids.select(2, 1).copy_(at::arange(shape.height, at::kDouble).unsqueeze(1).expand({shape.height, shape.width}));
  ids.select(2, 2).copy_(at::arange(shape.width, at::kDouble).unsqueeze(0).expand({shape.height, shape.width}));
  return ids.view({-1, 3});
}

/// Text ids are zeros in FLUX.1's own pipeline, which would hide ids that were not split; these are distinct.
Tensor text_ids(int64_t tokens) {
  const Tensor index = at::arange(tokens, at::kDouble);
  return at::stack({index + 1, 2 * index + 3, 3 * index + 2}, 1);
}

NamedTensors flux1_inputs(const Flux1Config& config, const Shape& shape, const std::string& family, uint64_t seed, double guidance) {
  const auto per_prompt = [&](const std::string& name, std::vector<int64_t> sizes) {
    std::vector<Tensor> prompts;
    for (int64_t prompt = 0; prompt < shape.batch; ++prompt) prompts.push_back(seeded_normal(sizes, seed, fmt::format("{}/{}", name, prompt)));
    return at::stack(prompts);
  };
  NamedTensors inputs{
      {"hidden_states", shaped_tokens(per_prompt("hidden_states", {shape.image_tokens(), config.in_channels}), family)},
      {"encoder_hidden_states", shaped_tokens(per_prompt("encoder_hidden_states", {shape.text_tokens, config.joint_attention_dim}), family)},
      {"pooled_projections", per_prompt("pooled_projections", {config.pooled_projection_dim})},
      // 0.5, 0.25, 0.125, 1, …: every dtype holds sigma and 1000 sigma exactly, so that rounding them is not what is measured.
      {"timestep", at::pow(2.0, -(at::arange(shape.batch, at::kDouble) + 1).remainder(4))},
      {"img_ids", image_ids(shape)},
      {"txt_ids", text_ids(shape.text_tokens)}};
  if (config.guidance_embeds) inputs["guidance"] = at::full({shape.batch}, guidance, at::kDouble);
  return inputs;
}

void check_weights(const ModelTraits& traits, const WeightSource& weights, const std::string& source) {
  for (const auto& [name, shape] : traits.parameters) {
    const TensorInfo& info = require(weights, name, shape);
    if (!at::isFloatingType(info.dtype))
      fail_input("checkpoint", "{}: tensor \"{}\" has dtype {}; accepted: F64, F32, F16, BF16", source, name, c10::toString(info.dtype));
  }
  for (const std::string& name : weights.names())
    if (!traits.parameters.count(name))
      fail_input("checkpoint", "{}: tensor \"{}\" is not part of the model that config.json describes", source, name);
}

std::optional<Golden> read_golden(const std::filesystem::path& file, const Flux1Config& config) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  SafetensorsFile stored(file);
  Golden golden;
  std::vector<std::string> inputs{"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids"};
  if (config.guidance_embeds) inputs.push_back("guidance");
  for (const auto& name : inputs) golden.inputs[name] = stored.read(name).to(at::kDouble);
  for (const auto* name : {"output_fp64", "output_fp64_casts", "output_fp32", "latents_fp64_steps1", "latents_fp64_steps4"})
    golden.outputs[name] = stored.read(name);
  return golden;
}

/// Many runs read the same weights. Small models keep what was read, so that nothing is read or drawn twice.
std::shared_ptr<WeightSource> kept_if_small(std::shared_ptr<WeightSource> weights, const ModelTraits& traits) {
  constexpr int64_t small = int64_t{1} << 30;
  return parameter_count(traits) * 4 <= small ? std::make_shared<SharedWeights>(std::move(weights)) : weights;
}

Subject flux1_subject(const std::string& name, const Flux1Config& config, std::shared_ptr<WeightSource> weights) {
  Subject subject;
  subject.spec = flux1_spec(name, config);
  subject.weights = kept_if_small(std::move(weights), subject.spec.traits);
  subject.oracle = [config, source = subject.weights, traits = subject.spec.traits](at::ScalarType rounded, at::ScalarType compute) {
    NamedTensors tensors;
    for (const auto& [parameter, shape] : traits.parameters) tensors[parameter] = source->read(parameter).to(rounded).to(compute);
    return std::make_unique<Flux1Oracle>(reference::Flux1(config, std::move(tensors)));
  };
  subject.inputs = [config](const Shape& shape, const std::string& family, uint64_t seed, double guidance) {
    return flux1_inputs(config, shape, family, seed, guidance);
  };
  return subject;
}

}  // namespace

Subject load_subject(const std::string& model, uint64_t seed) {
  if (is_preset(model)) {
    const Flux1Config config = flux1_preset(model);
    return flux1_subject(model, config, std::make_shared<SyntheticWeights>(flux1_traits(config).parameters, seed, at::kFloat));
  }
  if (!std::filesystem::exists(model))
    fail_input("model", "\"{}\" is neither a folder nor a preset; accepted: a diffusers folder with config.json, or {}", model,
               fmt::join(preset_names(), ", "));
  auto checkpoint = std::make_shared<Checkpoint>(model);
  const Flux1Config config = parse_flux1_config(checkpoint->config(), checkpoint->config_source());
  check_weights(flux1_traits(config), *checkpoint, model);
  const auto golden = read_golden(checkpoint->folder() / "oracle.safetensors", config);
  const auto folder = std::filesystem::weakly_canonical(model);
  Subject subject = flux1_subject(folder.filename().string(), config, std::move(checkpoint));
  subject.golden = golden;
  return subject;
}

}  // namespace shardproof
