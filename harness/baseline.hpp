#pragma once

#include "harness/recorder.hpp"
#include "harness/subject.hpp"
#include "kernels/error_stats.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardproof {

/// Everything one (dtype, input family) is judged by: a single device's activations and errors, and the fp64 truth on
/// the same inputs. Computed once and shared by all strategies.
struct Baseline {
  at::ScalarType dtype = at::kDouble;
  Shape shape;
  NamedTensors inputs;                            ///< whole, in `dtype`
  Trace single;                                   ///< single device, whole activations
  std::map<std::string, NamedTensors> reference;  ///< by module: fp64 outputs on `single`'s inputs
  std::map<std::string, std::map<std::string, ErrorStats>> single_errors;  ///< by module and slot
  std::map<std::string, std::map<std::string, ErrorStats>> aten_errors;    ///< the same for plain ATen in `dtype`
  std::map<int64_t, Tensor> single_output;     ///< by number of steps; 0 is one forward
  std::map<int64_t, Tensor> reference_output;  ///< the same in fp64
  std::map<int64_t, Tensor> aten_output;       ///< plain ATen in `dtype`
};

struct BaselineRequest {
  at::ScalarType dtype;
  std::string family;
  Shape shape;
  std::vector<int64_t> steps;
  std::string attention;
  uint64_t seed = 0;
  double guidance = 4;
  bool by_prompt = false;  ///< data parallel: only end to end, prompt by prompt
  bool padded_mask = false;  ///< with a key-padding mask of its own for each prompt
};

Baseline make_baseline(const Subject& subject, const BaselineRequest& request);

/// Baselines of one subject, made when first asked for and shared by strategies and by runs.
class Baselines {
 public:
  /// `subject` outlives it.
  explicit Baselines(const Subject& subject) : subject_(subject) {}

  /// `progress` is told when one has to be made.
  const Baseline& get(const BaselineRequest& request, const std::function<void(const std::string&)>& progress);

 private:
  const Subject& subject_;
  std::map<std::string, std::unique_ptr<Baseline>> made_;
};

}  // namespace shardproof
