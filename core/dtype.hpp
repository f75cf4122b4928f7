#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// "fp64", "fp32", "bf16", "fp16" (diffusers' float64, … are accepted too). Unknown names: input Error.
at::ScalarType parse_dtype(std::string_view name);

/// The short name of a dtype, for tables and records.
std::string dtype_name(at::ScalarType dtype);

/// A comma-separated list of dtypes, in the order given, without repeats.
std::vector<at::ScalarType> parse_dtypes(std::string_view list);

/// Unit roundoff times two: the spacing of 1.0 (2^-52, 2^-23, 2^-7, 2^-10).
double dtype_eps(at::ScalarType dtype);

/// What kernels compute in: fp64 for fp64, fp32 for everything narrower.
inline at::ScalarType accumulate_dtype(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace shardproof
