#pragma once

#include "core/named_tensors.hpp"
#include "models/model.hpp"
#include "models/weight_source.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace shardproof {

/// The plain model that everything is compared with, in one dtype.
class Oracle {
 public:
  virtual ~Oracle() = default;
  virtual Tensor forward(const NamedTensors& inputs) const = 0;
  virtual Tensor denoise(const NamedTensors& inputs, int64_t steps) const = 0;
  /// One module by name on its inputs by slot; blocks also take the model's position ids as `ids`.
  virtual NamedTensors run_module(const std::string& name, const NamedTensors& inputs) const = 0;
};

/// How large a request is.
struct Shape {
  int64_t batch = 1;
  int64_t height = 6, width = 8;  ///< image tokens as rows and columns of 2×2 latent patches
  int64_t text_tokens = 24;
  int64_t image_tokens() const { return height * width; }
};

/// What diffusers itself computed for this checkpoint: the oracle.safetensors of tests/oracle.
struct Golden {
  NamedTensors inputs;   ///< by argument name
  Tensor mask;           ///< encoder_hidden_states_mask, of the masked outputs only
  NamedTensors outputs;  ///< output_fp64 and output_fp32, with the suffix _masked too; latents_fp64_steps1 and _steps4
};

/// A model under test: the native one, its weights, and its oracle.
struct Subject {
  ModelSpec spec;
  std::shared_ptr<WeightSource> weights;
  std::optional<Golden> golden;
  Shape default_shape;
  /// The oracle in `compute`, its weights rounded to `rounded` first.
  std::function<std::unique_ptr<Oracle>(at::ScalarType rounded, at::ScalarType compute)> oracle;
  /// Seeded inputs in fp64, one stream of numbers per prompt. `family`: see harness/inputs.hpp.
  std::function<NamedTensors(const Shape&, const std::string& family, uint64_t seed, double guidance)> inputs;
};

/// Loads a diffusers folder or makes a preset's synthetic weights. Input Error, before weights are read, on anything that
/// does not fit: unknown name, malformed files, tensors that are missing, of another shape, or too many.
Subject load_subject(const std::string& model, uint64_t seed);

}  // namespace shardproof
