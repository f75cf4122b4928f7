#include "core/dtype.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace shardproof {
namespace {

struct Entry {
  at::ScalarType dtype;
  std::string_view name, alias;
  int mantissa_bits;
};

constexpr std::array<Entry, 4> floats{{{at::kDouble, "fp64", "float64", 52},
                                       {at::kFloat, "fp32", "float32", 23},
                                       {at::kBFloat16, "bf16", "bfloat16", 7},
                                       {at::kHalf, "fp16", "float16", 10}}};

}  // namespace

at::ScalarType parse_dtype(std::string_view name) {
  for (const auto& entry : floats)
    if (name == entry.name || name == entry.alias) return entry.dtype;
  fail_input("dtype", "unknown dtype \"{}\"; accepted: fp64, fp32, bf16, fp16", name);
}

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& entry : floats)
    if (dtype == entry.dtype) return std::string(entry.name);
  return c10::toString(dtype);
}

std::vector<at::ScalarType> parse_dtypes(std::string_view list) {
  std::vector<at::ScalarType> result;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const auto dtype = parse_dtype(list.substr(begin, end - begin));
    if (std::find(result.begin(), result.end(), dtype) == result.end()) result.push_back(dtype);
    begin = end + 1;
  }
  return result;
}

double dtype_eps(at::ScalarType dtype) {
  for (const auto& entry : floats)
    if (dtype == entry.dtype) return std::ldexp(1.0, -entry.mantissa_bits);
  fail_input("dtype", "{} has no rounding unit; accepted: fp64, fp32, bf16, fp16", dtype_name(dtype));
}

}  // namespace shardproof
