#pragma once

#include "core/mesh_shape.hpp"
#include "core/plan.hpp"
#include "kernels/error_stats.hpp"

#include <string>

namespace shardproof {

/// Where a comparison is taken (docs/numerics.md).
enum class Level { module, block, end_to_end, diffusers };
std::string level_name(Level level);

/// fp64 against fp64: the same function or not. It does not move.
constexpr double logic_gate = 1e-12;
/// fp64 against diffusers' own fp64 outputs, whose casts are lifted; and fp32 against its fp32 outputs.
constexpr double diffusers_fp64_gate = 1e-10;
constexpr double diffusers_fp32_gate = 1e-5;

/// Errors below this are noise and are not divided by. fp32: 16 eps, below which GEMM paths differ from one another.
/// bf16 and fp16: eps / 16, below the error of a single rounding (about 0.2 eps), so that it only guards against 0/0.
double error_floor(at::ScalarType dtype);

/// What kind of module a precision gate is asked for.
enum class Part { attention, linear, rowwise, block, end_to_end };

/// Largest allowed ratio of a strategy's error to a single device's, both against fp64; `count` values are compared,
/// which adds 4/√count for the scatter of two random errors. Products of axes multiply their gates.
double precision_gate(const Plan& plan, Part part, int64_t count);

/// For `single`: its kernels against plain ATen in the same dtype.
double single_gate(int64_t count);

}  // namespace shardproof
