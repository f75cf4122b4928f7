#include "harness/subject.hpp"

#include "core/error.hpp"
#include "core/model_config.hpp"
#include "harness/shared_weights.hpp"
#include "harness/subject_family.hpp"
#include "models/checkpoint.hpp"
#include "models/synthetic_weights.hpp"

namespace shardproof {
namespace {

SubjectFamily family_of(const std::string& name, const ModelConfig& config) {
  return std::visit([&](const auto& c) { return subject_family(name, c); }, config);
}

void check_weights(const ModelTraits& traits, const WeightSource& weights, const std::string& source) {
  for (const auto& [name, shape] : traits.parameters) {
    const TensorInfo& info = require(weights, name, shape);
    if (!at::isFloatingType(info.dtype))
      fail_input("checkpoint", "{}: tensor \"{}\" has dtype {}; accepted: F64, F32, F16, BF16", source, name,
                 c10::toString(info.dtype));
  }
  for (const std::string& name : weights.names())
    if (!traits.parameters.count(name))
      fail_input("checkpoint", "{}: tensor \"{}\" is not part of the model that config.json describes", source, name);
}

std::optional<Golden> read_golden(const std::filesystem::path& file, const std::vector<std::string>& input_names) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  SafetensorsFile stored(file);
  Golden golden;
  for (const auto& name : input_names) golden.inputs[name] = stored.read(name).to(at::kDouble);
  golden.mask = stored.read("encoder_hidden_states_mask");
  for (const auto* name : {"output_fp64", "output_fp64_casts", "output_fp64_masked", "output_fp32", "output_fp32_masked",
                           "latents_fp64_steps1", "latents_fp64_steps4"})
    golden.outputs[name] = stored.read(name);
  return golden;
}

/// Many runs read the same weights. Small models keep what was read, so that nothing is read or drawn twice.
std::shared_ptr<WeightSource> kept_if_small(std::shared_ptr<WeightSource> weights, const ModelTraits& traits) {
  constexpr int64_t small = int64_t{1} << 30;
  return parameter_count(traits) * 4 <= small ? std::make_shared<SharedWeights>(std::move(weights)) : weights;
}

Subject subject_of(SubjectFamily family, std::shared_ptr<WeightSource> weights) {
  Subject subject;
  subject.spec = std::move(family.spec);
  subject.weights = kept_if_small(std::move(weights), subject.spec.traits);
  subject.oracle = [make = std::move(family.oracle), source = subject.weights, parameters = subject.spec.traits.parameters](
                       at::ScalarType rounded, at::ScalarType compute) {
    NamedTensors tensors;
    for (const auto& [name, shape] : parameters) tensors[name] = source->read(name).to(rounded).to(compute);
    return make(std::move(tensors));
  };
  subject.inputs = std::move(family.inputs);
  return subject;
}

}  // namespace

Subject load_subject(const std::string& model, uint64_t seed) {
  if (is_preset(model)) {
    SubjectFamily family = family_of(model, model_preset(model));
    auto weights = std::make_shared<SyntheticWeights>(family.spec.traits.parameters, seed, at::kFloat);
    return subject_of(std::move(family), std::move(weights));
  }
  if (!std::filesystem::exists(model))
    fail_input("model", "\"{}\" is neither a folder nor a preset; accepted: a diffusers folder with config.json, or {}", model,
               fmt::join(preset_names(), ", "));
  auto checkpoint = std::make_shared<Checkpoint>(model);
  const auto name = std::filesystem::weakly_canonical(model).filename().string();
  SubjectFamily family = family_of(name, parse_model_config(checkpoint->config(), checkpoint->config_source()));
  check_weights(family.spec.traits, *checkpoint, model);
  auto golden = read_golden(checkpoint->folder() / "oracle.safetensors", family.input_names);
  Subject subject = subject_of(std::move(family), std::move(checkpoint));
  subject.golden = std::move(golden);
  return subject;
}

}  // namespace shardproof
