#pragma once

#include "harness/baseline.hpp"
#include "harness/comparison.hpp"
#include "harness/rank_run.hpp"

#include <vector>

namespace shardproof {

/// Judges a forced run module by module: ranks' outputs are put back together and compared with fp64 on the same inputs.
/// In fp64 by the logic gate, otherwise by the precision gate. On one device the error is compared with plain ATen's.
std::vector<Comparison> judge_forced(const Baseline& baseline, const Plan& plan, const RunResult& run, bool blocks);

/// Judges what the user sees: the output or the latents after `steps`, which must be the same on every rank. With `by_prompt` the result must also be bit-equal
/// to single runs, prompt by prompt.
std::vector<Comparison> judge_end_to_end(const Baseline& baseline, const Plan& plan, const RunResult& run, int64_t steps, bool by_prompt);

/// Judges the native model and the oracle on the inputs of the checkpoint's oracle.safetensors against what diffusers
/// computed: fp64 outputs and latents (casts lifted), and in fp32 the fp32 output. Nothing in other dtypes.
std::vector<Comparison> judge_diffusers(const Subject& subject, at::ScalarType dtype, int64_t steps, const std::string& attention);

}  // namespace shardproof
