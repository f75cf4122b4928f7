#pragma once

#include "core/named_tensors.hpp"
#include "models/checkpoint.hpp"
#include "tests/support/paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shardproof::test {

/// A committed checkpoint with what diffusers computed, floats of weights and inputs in one dtype.
struct StoredOracle {
  Json config;
  NamedTensors weights, inputs, masked_inputs, outputs;  ///< `masked_inputs` are `inputs` and the mask
};

inline StoredOracle read_oracle(const std::string& family, at::ScalarType dtype) {
  StoredOracle stored;
  Checkpoint checkpoint(oracle_checkpoint(family));
  stored.config = checkpoint.config();
  for (const auto& name : checkpoint.names()) stored.weights[name] = checkpoint.read(name).to(dtype);
  SafetensorsFile file(oracle_checkpoint(family) / "oracle.safetensors");
  const std::string mask = "encoder_hidden_states_mask";
  for (const auto& [name, info] : file.tensors()) {
    if (name.starts_with("output_") || name.starts_with("latents_"))
      stored.outputs[name] = file.read(name);
    else if (!name.starts_with("sigmas_") && name != mask)
      stored.inputs[name] = file.read(name).to(dtype);
  }
  stored.masked_inputs = stored.inputs;
  stored.masked_inputs[mask] = file.read(mask);
  return stored;
}

inline double relative_l2(const Tensor& x, const Tensor& reference) {
  const Tensor wide = reference.to(at::kDouble);
  return ((x.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

/// A reference model, made by `make` from a StoredOracle, against diffusers: fp64 with the casts lifted, with and without a
/// mask, whole denoising loops, and fp32.
template <class Make>
void expect_agreement_with_diffusers(const std::string& family, const Make& make, double fp32_gate) {
  const StoredOracle stored = read_oracle(family, at::kDouble);
  const auto model = make(stored);
  const Tensor output = model.forward(stored.inputs);
  EXPECT_LE(relative_l2(output, stored.outputs.at("output_fp64")), 1e-10);
  EXPECT_LE(relative_l2(model.forward(stored.masked_inputs), stored.outputs.at("output_fp64_masked")), 1e-10);
  EXPECT_LE(relative_l2(model.denoise(stored.inputs, 1), stored.outputs.at("latents_fp64_steps1")), 1e-10);
  EXPECT_LE(relative_l2(model.denoise(stored.inputs, 4), stored.outputs.at("latents_fp64_steps4")), 1e-10);
  // diffusers' own float32 casts are the limit here: sin and cos of values * 1000 in float32.
  EXPECT_LE(relative_l2(output, stored.outputs.at("output_fp64_casts")), 5e-5);

  const StoredOracle single = read_oracle(family, at::kFloat);
  const auto narrow = make(single);
  EXPECT_LE(relative_l2(narrow.forward(single.inputs), single.outputs.at("output_fp32")), fp32_gate);
  EXPECT_LE(relative_l2(narrow.forward(single.masked_inputs), single.outputs.at("output_fp32_masked")), fp32_gate);
}

/// Every parameter and every input moves the output: none is read in vain, but for the parameters of `unused`, which must
/// not move it.
template <class Make>
void expect_everything_to_matter(const std::string& family, const Make& make, const std::vector<std::string>& unused = {}) {
  const StoredOracle stored = read_oracle(family, at::kDouble);
  const Tensor output = make(stored).forward(stored.inputs);
  for (const auto& [name, value] : stored.weights) {
    StoredOracle changed = stored;
    // Biases of to_k add the same to all logits of a query only before the norm; scaled, every parameter shows.
    changed.weights[name] = value * 1.25 + 0.01;
    const double moved = relative_l2(make(changed).forward(stored.inputs), output);
    if (std::any_of(unused.begin(), unused.end(), [&](const auto& prefix) { return name.starts_with(prefix); }))
      EXPECT_EQ(moved, 0) << name;
    else
      EXPECT_GT(moved, 1e-9) << name;
  }
  for (const auto& [name, value] : stored.inputs) {
    NamedTensors changed = stored.inputs;
    changed[name] = value.flip(0) * 1.25 + 0.01;
    EXPECT_GT(relative_l2(make(stored).forward(changed), output), 1e-9) << name;
  }
  EXPECT_GT(relative_l2(make(stored).forward(stored.masked_inputs), output), 1e-3);
}

}  // namespace shardproof::test
