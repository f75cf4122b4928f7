#include "core/dtype.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(Dtype, NamesAndAliases) {
  EXPECT_EQ(parse_dtype("bf16"), at::kBFloat16);
  EXPECT_EQ(parse_dtype("bfloat16"), at::kBFloat16);
  EXPECT_EQ(parse_dtypes("fp64,fp16,float64"), (std::vector<at::ScalarType>{at::kDouble, at::kHalf}));
  for (const auto* name : {"fp64", "fp32", "bf16", "fp16"}) EXPECT_EQ(dtype_name(parse_dtype(name)), name);
  test::expect_error(Fault::input, {"\"fp8\"", "fp64, fp32, bf16, fp16"}, [] { parse_dtype("fp8"); });
  test::expect_error(Fault::input, {"\"\""}, [] { parse_dtypes("fp32,"); });
}

TEST(Dtype, EpsIsTheSpacingOfOne) {
  EXPECT_EQ(dtype_eps(at::kDouble), 0x1p-52);
  EXPECT_EQ(dtype_eps(at::kFloat), 0x1p-23);
  EXPECT_EQ(dtype_eps(at::kBFloat16), 0x1p-7);
  EXPECT_EQ(dtype_eps(at::kHalf), 0x1p-10);
  test::expect_error(Fault::input, {"Long"}, [] { dtype_eps(at::kLong); });
}

}  // namespace
}  // namespace shardproof
