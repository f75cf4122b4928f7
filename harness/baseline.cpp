#include "harness/baseline.hpp"

#include "core/dtype.hpp"
#include "harness/inputs.hpp"
#include "harness/rank_run.hpp"
#include "models/key_mask.hpp"
#include "strategies/data_parallel.hpp"
#include "strategies/single.hpp"

#include <fmt/ranges.h>

namespace shardproof {
namespace {

/// Attention alone is compared on the family's own q, k, v; the model's activations would all look alike.
void replace_attention_inputs(Trace& trace, const BaselineRequest& request, const std::optional<Tensor>& key_mask) {
  const auto backend = make_attention_backend(request.attention);
  for (const auto& name : trace.order) {
    if (!name.ends_with(".attn")) continue;
    ModuleTrace& module = trace.modules.at(name);
    module.inputs = to_dtype(
        attention_inputs(module.inputs.at("q").sizes(), module.inputs.at("k").sizes(), request.family, request.seed, name), request.dtype);
    module.outputs["out"] =
        backend->forward(module.inputs.at("q"), module.inputs.at("k"), module.inputs.at("v"), key_mask).out_BSHD;
  }
}

/// Both oracles run each module on the single device's own inputs.
void judge_modules(Baseline& baseline, const Oracle& truth, const Oracle* aten, const std::optional<Tensor>& key_mask) {
  const Tensor ids = at::cat({baseline.inputs.at("txt_ids"), baseline.inputs.at("img_ids")});
  for (const auto& name : baseline.single.order) {
    NamedTensors inputs = baseline.single.modules.at(name).inputs;
    inputs["ids"] = ids;
    if (key_mask) inputs["key_mask"] = *key_mask;
    auto& reference = baseline.reference[name] = truth.run_module(name, to_dtype(inputs, at::kDouble));
    const NamedTensors plain = aten ? aten->run_module(name, inputs) : reference;
    for (const auto& [slot, value] : baseline.single.modules.at(name).outputs) {
      baseline.single_errors[name][slot] = error_stats(value, reference.at(slot));
      baseline.aten_errors[name][slot] = error_stats(plain.at(slot), reference.at(slot));
    }
  }
}

Tensor run_oracle(const Oracle& oracle, const NamedTensors& inputs, int64_t steps) {
  return steps == 0 ? oracle.forward(inputs) : oracle.denoise(inputs, steps);
}

}  // namespace

const Baseline& Baselines::get(const BaselineRequest& request, const std::function<void(const std::string&)>& progress) {
  const Shape& shape = request.shape;
  auto& entry = made_[fmt::format("{} {} {}x{}x{}+{} {} {} {} {} {} {}", dtype_name(request.dtype), request.family, shape.batch, shape.height,
                                  shape.width, shape.text_tokens, fmt::join(request.steps, ","), request.attention, request.seed,
                                  request.guidance, request.by_prompt, request.padded_mask)];
  if (!entry) {
    progress(fmt::format("baseline {} {}", dtype_name(request.dtype), request.family));
    entry = std::make_unique<Baseline>(make_baseline(subject_, request));
  }
  return *entry;
}

Baseline make_baseline(const Subject& subject, const BaselineRequest& request) {
  Baseline baseline;
  baseline.dtype = request.dtype;
  baseline.shape = request.shape;
  baseline.inputs = to_dtype(subject.inputs(request.shape, request.family, request.seed, request.guidance), request.dtype);
  if (request.padded_mask) baseline.inputs["encoder_hidden_states_mask"] = padded_mask(request.shape.batch, request.shape.text_tokens);
  const c10::InferenceMode guard;
  const auto truth = subject.oracle(request.dtype, at::kDouble);
  // In fp64 plain ATen is the truth itself.
  const auto aten = request.dtype == at::kDouble ? nullptr : subject.oracle(request.dtype, request.dtype);
  const NamedTensors exact = to_dtype(baseline.inputs, at::kDouble);

  const MeshShape mesh = request.by_prompt ? MeshShape({{Axis::dp, 1}}) : MeshShape();
  const RankRequest one{request.by_prompt ? &data_parallel() : &single(), mesh, request.dtype, request.attention, nullptr};
  if (!request.by_prompt) {
    baseline.single = record_single(subject, one, baseline.inputs);
    const auto key_mask = joint_key_mask(baseline.inputs);
    replace_attention_inputs(baseline.single, request, key_mask);
    judge_modules(baseline, *truth, aten.get(), key_mask);
  }
  for (const int64_t steps : request.steps) {
    baseline.single_output[steps] = run_end_to_end(subject, one, baseline.inputs, steps).ranks[0].output;
    baseline.reference_output[steps] = run_oracle(*truth, exact, steps);
    baseline.aten_output[steps] = aten ? run_oracle(*aten, baseline.inputs, steps) : baseline.reference_output[steps];
  }
  return baseline;
}

}  // namespace shardproof
