#pragma once

#include "core/model_config.hpp"
#include "harness/subject.hpp"

#include <memory>
#include <string>
#include <vector>

namespace shardproof {

/// What one model family brings to a Subject; each is made in a source of its own, subject_<family>.cpp.
struct SubjectFamily {
  ModelSpec spec;
  /// The reference model on these weights.
  std::function<std::unique_ptr<Oracle>(NamedTensors weights)> oracle;
  /// See Subject::inputs.
  std::function<NamedTensors(const Shape&, const std::string& family, uint64_t seed, double guidance)> inputs;
  std::vector<std::string> input_names;  ///< those that a golden file holds, without the mask
};

SubjectFamily subject_family(const std::string& name, const Flux1Config& config);
SubjectFamily subject_family(const std::string& name, const Flux2Config& config);
SubjectFamily subject_family(const std::string& name, const QwenImageConfig& config);

/// Any reference model as the Oracle.
template <class Reference>
class ReferenceOracle final : public Oracle {
 public:
  explicit ReferenceOracle(Reference model) : model_(std::move(model)) {}
  Tensor forward(const NamedTensors& inputs) const override { return model_.forward(inputs); }
  Tensor denoise(const NamedTensors& inputs, int64_t steps) const override { return model_.denoise(inputs, steps); }
  NamedTensors run_module(const std::string& name, const NamedTensors& inputs) const override {
    return model_.run_module(name, inputs);
  }

 private:
  Reference model_;
};

}  // namespace shardproof
