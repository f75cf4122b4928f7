#include "kernels/rope.hpp"
#include "tests/kernels/compare.hpp"

#include <complex>

namespace shardproof::test {
namespace {

using testing::HasSubstr;

/// The angle of each pair, [S, D/2], fp64.
Tensor angles(const Tensor& ids, at::IntArrayRef axes, double theta) {
  std::vector<Tensor> parts;
  for (size_t a = 0; a < axes.size(); ++a) {
    const auto exponent = at::arange(0, axes[a], 2, at::kDouble) / axes[a];
    parts.push_back(at::outer(ids.select(1, a).to(at::kDouble), at::pow(theta, exponent).reciprocal()));
  }
  return at::cat(parts, 1);
}

/// Each pair as a complex number, times e^(i angle).
Tensor turn(const Tensor& x, const Tensor& angle) {
  const auto pairs = at::view_as_complex(x.to(at::kDouble).contiguous().unflatten(-1, {-1, 2}));
  const auto turned = pairs * at::polar(at::ones_like(angle), angle).unsqueeze(0).unsqueeze(2);
  return at::view_as_real(turned).flatten(-2);
}

Tensor flux_ids(int64_t S) {
  const auto i = at::arange(S, at::kDouble);
  return at::stack({at::zeros_like(i), at::floor(i / 8), at::fmod(i, 8)}, 1);
}

TEST(Rope, TableEqualsTheFormula) {
  const auto ids = flux_ids(37) + 3;
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{16, 56, 56}, {2, 4, 6}, {0, 2, 2}}) {
    const auto table = rope_table(ids, axes, 10000, at::kDouble);
    const auto angle = angles(ids, axes, 10000).repeat_interleave(2, 1);
    EXPECT_LE(relative_l2(table.cos_SD, at::cos(angle)), gate);
    EXPECT_LE(relative_l2(table.sin_SD, at::sin(angle)), gate);
  }
}

TEST(Rope, TableIsComputedInFp64AndRoundedOnce) {
  const auto ids = (flux_ids(64) * 64).to(at::kFloat);
  const auto table = rope_table(ids, {16, 56, 56}, 10000, at::kFloat), wide = rope_table(ids, {16, 56, 56}, 10000, at::kDouble);
  EXPECT_EQ(table.cos_SD.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(table.cos_SD, wide.cos_SD.to(at::kFloat)));
  EXPECT_TRUE(at::equal(table.sin_SD, wide.sin_SD.to(at::kFloat)));
}

TEST(Rope, TableHandWorked) {  // axis 1 of size 4: frequencies 1 and 1/100
  const auto table = rope_table(at::tensor({0., 2.}).view({1, 2}), {2, 4}, 10000, at::kDouble);
  EXPECT_TRUE(
      passes(table.cos_SD,
             at::tensor({1., 1., std::cos(2.0), std::cos(2.0), std::cos(0.02), std::cos(0.02)}, at::kDouble).view({1, 6})));
  EXPECT_TRUE(
      passes(table.sin_SD,
             at::tensor({0., 0., std::sin(2.0), std::sin(2.0), std::sin(0.02), std::sin(0.02)}, at::kDouble).view({1, 6})));
}

TEST(Rope, TurnsPairsLikeComplexNumbers) {
  for (const int64_t S : {1, 5, 33})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2, 4, 4}, {16, 56, 56}}) {
      const auto ids = flux_ids(S) + 1, x = normal({2, S, 3, axes[0] + axes[1] + axes[2]}, "x");
      EXPECT_LE(relative_l2(apply_rope(x, rope_table(ids, axes, 10000, at::kDouble)), turn(x, angles(ids, axes, 10000))), gate);
    }
}

TEST(Rope, HandWorked) {  // a quarter turn: (1, 2) -> (-2, 1)
  const RopeTable quarter{at::zeros({1, 2}), at::ones({1, 2})};
  EXPECT_TRUE(at::equal(apply_rope(at::tensor({1.f, 2.f}).view({1, 1, 1, 2}), quarter).flatten(), at::tensor({-2.f, 1.f})));
}

TEST(Rope, OtherDtypesRoundOnce) {
  const auto ids = flux_ids(9);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto table_dtype : {at::kFloat, at::kDouble}) {
      const auto x = normal({2, 9, 2, 10}, "x").to(dtype);
      const auto y = apply_rope(x, rope_table(ids, {2, 4, 4}, 10000, table_dtype));
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_LE(relative_l2(y, turn(x, angles(ids, {2, 4, 4}, 10000))), rounding_bound(dtype) / 4);
    }
}

TEST(Rope, AnyStrides) {
  const auto ids = flux_ids(6), angle = angles(ids, {2, 4, 4}, 10000);
  const auto table = rope_table(spread(ids), {2, 4, 4}, 10000, at::kDouble);
  for (const auto& x : {spread(normal({2, 6, 3, 10}, "x")), normal({2, 3, 6, 10}, "x").transpose(1, 2),
                        normal({2, 6, 3, 20}, "x").slice(3, 4, 14)})
    EXPECT_LE(relative_l2(apply_rope(x, table), turn(x, angle)), gate);
}

TEST(Rope, RefusesWhatDoesNotFit) {
  const auto ids = flux_ids(4), x = normal({1, 4, 2, 10}, "x");
  EXPECT_THAT(refusal([&] { rope_table(ids, {4, 6}, 10000, at::kFloat); }), HasSubstr("[rope] ids are [4, 3]; [S, 2]"));
  EXPECT_THAT(refusal([&] { rope_table(ids, {2, 3, 4}, 10000, at::kFloat); }), HasSubstr("holds 3; even"));
  EXPECT_THAT(refusal([&] { rope_table(ids, {2, 4, 4}, 0, at::kFloat); }), HasSubstr("theta is 0"));
  EXPECT_THAT(refusal([&] { rope_table(ids, {2, 4, 4}, 10000, at::kBFloat16); }), HasSubstr("bf16; accepted: fp32, fp64"));
  const auto table = rope_table(ids, {2, 4, 4}, 10000, at::kFloat);
  EXPECT_THAT(refusal([&] { apply_rope(x.slice(1, 0, 3), table); }), HasSubstr("the table is [4, 10]; [3, 10]"));
  EXPECT_THAT(refusal([&] { apply_rope(x.slice(3, 0, 9), table); }), HasSubstr("even D"));
  EXPECT_THAT(refusal([&] { apply_rope(x[0], table); }), HasSubstr("[B, S, H, D]"));
}

}  // namespace
}  // namespace shardproof::test
