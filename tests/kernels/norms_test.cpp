#include "kernels/layer_norm.hpp"
#include "kernels/rms_norm.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

Tensor layer_norm_reference(const Tensor& x, double eps) {
  const auto wide = x.to(at::kDouble), centred = wide - wide.mean(-1, true);
  return centred / at::sqrt((centred * centred).mean(-1, true) + eps);
}

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight, double eps) {
  const auto wide = x.to(at::kDouble);
  return wide / at::sqrt((wide * wide).mean(-1, true) + eps) * weight.to(at::kDouble);
}

TEST(LayerNorm, EqualsTheFormulaInFp64) {
  for (const int64_t width : {1, 3, 7, 16, 65, 257})
    for (const double eps : {1e-6, 1e-5, 0.5}) {
      const auto x = normal({2, 5, width}, "x") * 3 + 2;
      EXPECT_LE(relative_l2(layer_norm(x, eps), layer_norm_reference(x, eps)), gate) << width << " " << eps;
    }
}

TEST(LayerNorm, WeightAndBias) {
  const auto x = normal({2, 5, 33}, "x"), w = normal({33}, "w"), b = normal({33}, "b");
  const auto plain = layer_norm_reference(x, 1e-5);
  EXPECT_LE(relative_l2(layer_norm(x, 1e-5, w, b), plain * w + b), gate);
  EXPECT_LE(relative_l2(layer_norm(x, 1e-5, w), plain * w), gate);
  EXPECT_LE(relative_l2(layer_norm(x, 1e-5, std::nullopt, b), plain + b), gate);
}

TEST(LayerNorm, HandWorked) {  // mean 5, variance 5
  const auto x = at::tensor({2., 4., 6., 8.}, at::kDouble), root = std::sqrt(5.0) * at::ones({}, at::kDouble);
  EXPECT_TRUE(passes(layer_norm(x, 0), at::tensor({-3., -1., 1., 3.}, at::kDouble) / root));
  EXPECT_TRUE(at::equal(layer_norm(at::full({3, 4}, 7.0), 1e-6), at::zeros({3, 4})));
}

TEST(LayerNorm, ALargeOffsetCostsNoDigits) {
  const auto x = (normal({4, 64}, "x") + 4096).to(at::kFloat);
  EXPECT_LE(relative_l2(layer_norm(x, 1e-6), layer_norm_reference(x, 1e-6)), 1e-3);  // one-pass variance: above 0.1
}

TEST(Norms, OtherDtypesRoundOnce) {
  for (const auto dtype : dtypes()) {
    const auto x = (normal({2, 7, 130}, "x") + 0.5).to(dtype), w = normal({130}, "w").to(dtype);
    const auto layer = layer_norm(x, 1e-6), rms = rms_norm(x, w, 1e-6);
    EXPECT_EQ(layer.scalar_type(), dtype);
    EXPECT_EQ(rms.scalar_type(), dtype);
    EXPECT_LE(relative_l2(layer, layer_norm_reference(x, 1e-6)), rounding_bound(dtype) / 4) << dtype_name(dtype);
    EXPECT_LE(relative_l2(rms, rms_norm_reference(x, w, 1e-6)), rounding_bound(dtype) / 4) << dtype_name(dtype);
  }
}

TEST(RmsNorm, EqualsTheFormulaInFp64) {
  for (const int64_t width : {1, 3, 7, 16, 65, 257})
    for (const double eps : {1e-6, 0.5}) {
      const auto x = normal({2, 3, 2, width}, "x") + 1, w = normal({width}, "w");
      EXPECT_LE(relative_l2(rms_norm(x, w, eps), rms_norm_reference(x, w, eps)), gate) << width;
    }
}

TEST(RmsNorm, HandWorked) {  // D-06: the mean of squares of [3, 4, 0, 0] is 6.25; of [3, 4] alone 12.5
  const auto ones = at::ones({4}, at::kDouble);
  EXPECT_TRUE(passes(rms_norm(at::tensor({3., 4., 0., 0.}, at::kDouble), ones, 0), at::tensor({1.2, 1.6, 0., 0.}, at::kDouble)));
  const auto w = at::tensor({1., 2., 3., 4.}, at::kDouble);
  EXPECT_TRUE(passes(rms_norm(ones, w, 0), w));
  EXPECT_NEAR(rms_norm(at::tensor({3., 4.}, at::kDouble), ones.slice(0, 0, 2), 0)[0].item<double>(), 0.8485281374, 1e-9);
}

TEST(Norms, AnyStrides) {
  const auto x = normal({2, 6, 10}, "x"), w = spread(normal({10}, "w"));
  for (const auto& view : {spread(x), x.transpose(0, 1), x.slice(1, 1, 5), x.slice(1, 0, 6, 2)}) {
    EXPECT_LE(relative_l2(layer_norm(view, 1e-6, w), layer_norm_reference(view, 1e-6) * w), gate);
    EXPECT_LE(relative_l2(rms_norm(view, w, 1e-6), rms_norm_reference(view, w, 1e-6)), gate);
  }
}

TEST(Norms, NoRows) { EXPECT_EQ(layer_norm(at::zeros({0, 4}), 1e-6).sizes(), at::IntArrayRef({0, 4})); }

TEST(Norms, RefuseWhatDoesNotFit) {
  const auto x = normal({2, 4}, "x");
  EXPECT_THAT(refusal([&] { layer_norm(at::ones({2, 4}, at::kInt), 1e-6); }), HasSubstr("[layer_norm] x is Int"));
  EXPECT_THAT(refusal([&] { layer_norm(at::ones({2, 0}), 1e-6); }), HasSubstr("[2, 0]"));
  EXPECT_THAT(refusal([&] { layer_norm(x, -1); }), HasSubstr("eps is -1"));
  EXPECT_THAT(refusal([&] { layer_norm(x, 1e-6, at::ones({3}, at::kDouble)); }), HasSubstr("weight is [3]; [4] is needed"));
  EXPECT_THAT(refusal([&] { layer_norm(x, 1e-6, at::ones({4}, at::kFloat)); }), HasSubstr("weight is fp32; fp64"));
  EXPECT_THAT(refusal([&] { rms_norm(x, at::ones({2, 4}, at::kDouble), 1e-6); }), HasSubstr("[rms_norm] weight is [2, 4]"));
  EXPECT_THAT(refusal([&] { rms_norm(x, {}, 1e-6); }), HasSubstr("weight is undefined"));
}

}  // namespace
}  // namespace shardproof::test
