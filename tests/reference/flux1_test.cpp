#include "reference/flux1.hpp"

#include "core/random.hpp"
#include "models/checkpoint.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

double relative_l2(const Tensor& x, const Tensor& reference) {
  const Tensor wide = reference.to(at::kDouble);
  return ((x.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

struct Stored {
  Flux1Config config;
  NamedTensors weights, inputs, outputs;
};

Stored read_oracle(at::ScalarType dtype) {
  Stored stored;
  Checkpoint checkpoint(test::oracle_checkpoint());
  stored.config = parse_flux1_config(checkpoint.config(), "config.json");
  for (const auto& name : checkpoint.names()) stored.weights[name] = checkpoint.read(name).to(dtype);
  SafetensorsFile file(test::oracle_checkpoint() / "oracle.safetensors");
  for (const auto* name : {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "guidance", "img_ids", "txt_ids"})
    stored.inputs[name] = file.read(name).to(dtype);
  for (const auto* name : {"output_fp32", "output_fp64", "output_fp64_casts", "latents_fp64_steps1", "latents_fp64_steps4"})
    stored.outputs[name] = file.read(name);
  return stored;
}

TEST(ReferenceFlux1, Fp64AgreesWithDiffusers) {
  const Stored stored = read_oracle(at::kDouble);
  const reference::Flux1 model(stored.config, stored.weights);
  const Tensor output = model.forward(stored.inputs);
  EXPECT_LE(relative_l2(output, stored.outputs.at("output_fp64")), 1e-10);
  // diffusers' own float32 casts are the limit here: sin and cos of guidance * 1000 in float32 alone cost 1.7e-5.
  EXPECT_LE(relative_l2(output, stored.outputs.at("output_fp64_casts")), 5e-5);
  EXPECT_LE(relative_l2(model.denoise(stored.inputs, 1), stored.outputs.at("latents_fp64_steps1")), 1e-10);
  EXPECT_LE(relative_l2(model.denoise(stored.inputs, 4), stored.outputs.at("latents_fp64_steps4")), 1e-10);
}

TEST(ReferenceFlux1, Fp32AgreesWithDiffusers) {
  const Stored stored = read_oracle(at::kFloat);
  EXPECT_LE(relative_l2(reference::Flux1(stored.config, stored.weights).forward(stored.inputs), stored.outputs.at("output_fp32")), 1e-5);
}

TEST(ReferenceFlux1, EveryParameterAndInputMatters) {
  Stored stored = read_oracle(at::kDouble);
  const Tensor output = reference::Flux1(stored.config, stored.weights).forward(stored.inputs);
  for (const auto& [name, value] : stored.weights) {
    NamedTensors changed = stored.weights;
    // Biases of to_k add the same to all logits of a query only before the norm; scaled, every parameter shows.
    changed[name] = value * 1.25 + 0.01;
    EXPECT_GT(relative_l2(reference::Flux1(stored.config, changed).forward(stored.inputs), output), 1e-9) << name;
  }
  for (const auto& [name, value] : stored.inputs) {
    NamedTensors changed = stored.inputs;
    changed[name] = value.flip(0) * 1.25 + 0.01;
    EXPECT_GT(relative_l2(reference::Flux1(stored.config, stored.weights).forward(changed), output), 1e-9) << name;
  }
}

TEST(ReferenceFlux1, AttentionOfZeroQueriesIsTheMeanOfTheValues) {
  const Stored stored = read_oracle(at::kDouble);
  const reference::Flux1 model(stored.config, stored.weights);
  const Tensor v = at::arange(4, at::kDouble).view({1, 4, 1, 1}), zero = at::zeros({1, 4, 1, 1}, at::kDouble);
  const Tensor out = model.run_module("transformer_blocks.0.attn", {{"q", zero}, {"k", zero}, {"v", v}}).at("out");
  EXPECT_LE(relative_l2(out, at::full({1, 4, 1, 1}, 1.5, at::kDouble)), 1e-15);
}

}  // namespace
}  // namespace shardproof
