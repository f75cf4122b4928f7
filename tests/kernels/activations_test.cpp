#include "kernels/activations.hpp"
#include "tests/kernels/compare.hpp"

#include <numbers>

namespace shardproof::test {
namespace {

using testing::HasSubstr;

Tensor gelu_reference(const Tensor& x) {
  const auto wide = x.to(at::kDouble);
  return 0.5 * wide * (1 + at::tanh(std::sqrt(2 / std::numbers::pi) * (wide + 0.044715 * wide * wide * wide)));
}

Tensor silu_reference(const Tensor& x) { return x.to(at::kDouble) / (1 + at::exp(-x.to(at::kDouble))); }

TEST(Activations, EqualTheFormulaInFp64) {
  for (const int64_t count : {1, 7, 4095, 4096, 4097, 10001}) {
    const auto x = normal({count}, "x") * 2;
    EXPECT_LE(relative_l2(gelu_tanh(x), gelu_reference(x)), gate) << count;
    EXPECT_LE(relative_l2(shardproof::silu(x), silu_reference(x)), gate) << count;
  }
  EXPECT_LE(relative_l2(gelu_tanh(normal({3, 5}, "x")), at::gelu(normal({3, 5}, "x"), "tanh")), gate);
}

TEST(Activations, OtherDtypesRoundOnce) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto x = (normal({5, 77}, "x") * 2).to(dtype);
    EXPECT_LE(relative_l2(gelu_tanh(x), gelu_reference(x)), rounding_bound(dtype) / 2) << dtype_name(dtype);
    EXPECT_LE(relative_l2(shardproof::silu(x), silu_reference(x)), rounding_bound(dtype) / 2) << dtype_name(dtype);
    EXPECT_EQ(gelu_tanh(x).scalar_type(), dtype);
  }
}

TEST(Activations, FarOutValues) {
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto x = at::tensor({-1e4, -100., -20., -0., 0., 20., 100., 1e4}, dtype);
    for (const auto& y : {gelu_tanh(x), shardproof::silu(x)}) {
      EXPECT_TRUE(y.isfinite().all().item<bool>());
      EXPECT_TRUE(at::allclose(y, x.clamp_min(0), 0, 1e-7)) << y;
    }
    EXPECT_TRUE(std::isnan(gelu_tanh(at::full({1}, NAN, dtype)).item<double>()));
  }
}

TEST(Activations, HandWorked) {  // silu(ln 3) = ln 3 · 3/4
  EXPECT_NEAR(shardproof::silu(at::full({1}, std::log(3.0), at::kDouble)).item<double>(), std::log(3.0) * 0.75, 1e-15);
  EXPECT_NEAR(gelu_tanh(at::ones({1}, at::kDouble)).item<double>(), 0.8411919906082768, 1e-15);
}

TEST(Activations, AnyStrides) {
  const auto x = normal({6, 4, 3}, "x");
  for (const auto& view : {spread(x), x.permute({2, 0, 1}), x.slice(1, 1, 3)}) {
    EXPECT_LE(relative_l2(gelu_tanh(view), gelu_reference(view)), gate);
    EXPECT_LE(relative_l2(shardproof::silu(view), silu_reference(view)), gate);
  }
  EXPECT_EQ(shardproof::silu(at::zeros({0, 3})).numel(), 0);
}

TEST(Activations, RefuseOtherDtypes) {
  EXPECT_THAT(refusal([] { gelu_tanh(at::ones({2}, at::kLong)); }), HasSubstr("[gelu_tanh] x is Long"));
  EXPECT_THAT(refusal([] { shardproof::silu({}); }), HasSubstr("[silu] x is undefined"));
}

}  // namespace
}  // namespace shardproof::test
