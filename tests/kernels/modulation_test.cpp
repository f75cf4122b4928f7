#include "kernels/modulation.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

TEST(Modulation, EqualsTheFormulaInFp64) {
  for (const int64_t width : {1, 5, 64, 131}) {
    const auto x = normal({2, 7, width}, "x"), y = normal({2, 7, width}, "y"), a = normal({2, width}, "a"),
               b = normal({2, width}, "b");
    EXPECT_LE(relative_l2(modulate(x, a, b), x * (1 + a.unsqueeze(1)) + b.unsqueeze(1)), gate);
    EXPECT_LE(relative_l2(gate_residual(x, a, y), x + a.unsqueeze(1) * y), gate);
  }
}

TEST(Modulation, HandWorked) {
  const auto x = at::tensor({1., 2., 3., 4.}).view({2, 1, 2}), scale = at::tensor({1., 2., 3., 4.}).view({2, 2});
  const auto shift = at::tensor({10., 20., 30., 40.}).view({2, 2});
  EXPECT_TRUE(at::equal(modulate(x, scale, shift).flatten(), at::tensor({12., 26., 42., 60.})));
  EXPECT_TRUE(at::equal(gate_residual(x, scale, 10 * x).flatten(), at::tensor({11., 42., 93., 164.})));
}

TEST(Modulation, OtherDtypesRoundOnce) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto x = normal({2, 7, 33}, "x").to(dtype), a = normal({2, 33}, "a").to(dtype), b = normal({2, 33}, "b").to(dtype);
    const auto wide = x.to(at::kDouble), as = a.to(at::kDouble).unsqueeze(1), bs = b.to(at::kDouble).unsqueeze(1);
    EXPECT_LE(relative_l2(modulate(x, a, b), wide * (1 + as) + bs), rounding_bound(dtype) / 4);
    EXPECT_LE(relative_l2(gate_residual(x, a, x), wide + as * wide), rounding_bound(dtype) / 4);
    EXPECT_EQ(modulate(x, a, b).scalar_type(), dtype);
  }
}

TEST(Modulation, RoundsToNearestEvenAndKeepsNotANumber) {  // 1 + 2^-8 lies between two bf16 values, 1 is the even one
  const auto bf16 = [](at::IntArrayRef shape, double value) { return at::full(shape, value, at::kBFloat16); };
  EXPECT_EQ(modulate(bf16({1, 1, 1}, 1), bf16({1, 1}, 0), bf16({1, 1}, 0x1p-8)).item<double>(), 1.0);
  EXPECT_EQ(modulate(bf16({1, 1, 1}, 1), bf16({1, 1}, 0), bf16({1, 1}, 0x3p-8)).item<double>(), 1.015625);
  EXPECT_TRUE(std::isnan(modulate(bf16({1, 1, 1}, NAN), bf16({1, 1}, 0), bf16({1, 1}, 0)).item<double>()));
  EXPECT_TRUE(std::isinf(modulate(bf16({1, 1, 1}, 3e38), bf16({1, 1}, 1), bf16({1, 1}, 0)).item<double>()));
}

TEST(Modulation, AnyStrides) {
  const auto x = normal({3, 4, 6}, "x"), a = normal({6, 3}, "a").t(), b = spread(normal({3, 6}, "b"));
  for (const auto& view : {spread(x), normal({4, 3, 6}, "y").transpose(0, 1)}) {
    EXPECT_LE(relative_l2(modulate(view, a, b), view * (1 + a.unsqueeze(1)) + b.unsqueeze(1)), gate);
    EXPECT_LE(relative_l2(gate_residual(view, a, x), view + a.unsqueeze(1) * x), gate);
  }
}

TEST(Modulation, RefusesWhatDoesNotFit) {
  const auto x = normal({2, 3, 4}, "x"), a = normal({2, 4}, "a");
  EXPECT_THAT(refusal([&] { modulate(a, a, a); }), HasSubstr("[modulate] x is [2, 4]; [B, S, C]"));
  EXPECT_THAT(refusal([&] { modulate(x, a.slice(0, 0, 1), a); }), HasSubstr("scale is [1, 4]; [2, 4]"));
  EXPECT_THAT(refusal([&] { modulate(x, a, a.to(at::kFloat)); }), HasSubstr("shift is fp32; fp64"));
  EXPECT_THAT(refusal([&] { gate_residual(x.slice(1, 0, 2), a, x); }), HasSubstr("[gate_residual] residual is [2, 2, 4]"));
  EXPECT_THAT(refusal([&] { gate_residual(x, x, x); }), HasSubstr("gate is [2, 3, 4]"));
}

}  // namespace
}  // namespace shardproof::test
