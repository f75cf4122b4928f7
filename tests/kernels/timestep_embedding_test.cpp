#include "kernels/timestep_embedding.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

Tensor reference(const Tensor& t, int64_t dim, at::ScalarType compute) {
  const auto half = dim / 2;
  const auto frequencies = at::exp(-std::log(10000.0) * at::arange(half, compute) / half);
  const auto angles = t.to(compute).unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({at::cos(angles), at::sin(angles)}, 1);
}

TEST(TimestepEmbedding, EqualsTheFormulaInFp64) {
  const auto t = at::tensor({0., 0.5, 17.25, 500., 999.}, at::kDouble);
  for (const int64_t dim : {2, 6, 256})
    EXPECT_LE(relative_l2(timestep_embedding(t, dim, at::kDouble), reference(t, dim, at::kDouble)), gate);
}

TEST(TimestepEmbedding, HandWorked) {  // dim 4: frequencies 1 and 1/100
  const auto y = timestep_embedding(at::tensor({1., 100.}, at::kDouble), 4, at::kDouble);
  const auto right = at::tensor({std::cos(1.0), std::cos(0.01), std::sin(1.0), std::sin(0.01),  //
                                 std::cos(100.0), std::cos(1.0), std::sin(100.0), std::sin(1.0)},
                                at::kDouble);
  EXPECT_TRUE(passes(y, right.view({2, 4})));
}

TEST(TimestepEmbedding, Fp32ArithmeticForOtherTimes) {
  const auto t = at::tensor({0.5, 17.25, 500., 999.}, at::kDouble);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto y = timestep_embedding(t.to(dtype), 256, dtype);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_LE(relative_l2(y, reference(t.to(dtype), 256, at::kFloat)), dtype == at::kFloat ? 2e-5 : rounding_bound(dtype) / 4);
  }
  EXPECT_LE(relative_l2(timestep_embedding(at::arange(5), 64, at::kFloat), reference(at::arange(5), 64, at::kDouble)), 1e-6);
  EXPECT_LE(relative_l2(timestep_embedding(t, 64, at::kFloat), reference(t, 64, at::kDouble)), dtype_eps(at::kFloat));
}

TEST(TimestepEmbedding, AnyStrides) {
  const auto t = spread(at::arange(6, at::kDouble) * 100);
  EXPECT_LE(relative_l2(timestep_embedding(t, 8, at::kDouble), reference(t, 8, at::kDouble)), gate);
}

TEST(TimestepEmbedding, RefusesWhatDoesNotFit) {
  const auto t = at::ones({2});
  EXPECT_THAT(refusal([&] { timestep_embedding(t.view({2, 1}), 4, at::kFloat); }), HasSubstr("[timestep_embedding] t is [2, 1]"));
  EXPECT_THAT(refusal([&] { timestep_embedding(t, 5, at::kFloat); }), HasSubstr("dim is 5"));
  EXPECT_THAT(refusal([&] { timestep_embedding(t, 0, at::kFloat); }), HasSubstr("dim is 0"));
  EXPECT_THAT(refusal([&] { timestep_embedding(t, 4, at::kInt); }), HasSubstr("Int"));
}

}  // namespace
}  // namespace shardproof::test
