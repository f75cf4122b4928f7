#include "kernels/linear.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

TEST(Linear, EqualsTheProduct) {
  const auto x = normal({2, 5, 7}, "x"), w = normal({3, 7}, "w"), b = normal({3}, "b");
  EXPECT_LE(relative_l2(shardproof::linear(x, w, b), (x.unsqueeze(2) * w).sum(-1) + b), gate);
  EXPECT_LE(relative_l2(shardproof::linear(spread(x), w, std::nullopt), (x.unsqueeze(2) * w).sum(-1)), gate);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto xs = x.to(dtype), ws = w.to(dtype);
    EXPECT_LE(
        relative_l2(shardproof::linear(xs, ws, std::nullopt), (xs.to(at::kDouble).unsqueeze(2) * ws.to(at::kDouble)).sum(-1)),
        rounding_bound(dtype));
  }
}

TEST(Linear, HandWorked) {  // D-01's values
  const auto x = at::tensor({1.f, 2.f, 3.f, 4.f}), w = at::ones({2, 4}), b = at::tensor({10.f, 20.f});
  EXPECT_TRUE(at::equal(shardproof::linear(x, w, b), at::tensor({20.f, 30.f})));
}

TEST(Linear, RefusesWhatDoesNotFit) {
  const auto x = at::ones({2, 4}), w = at::ones({3, 4});
  EXPECT_THAT(refusal([&] {
                shardproof::linear(x, at::ones({3, 5}), std::nullopt);
              }),
              HasSubstr("[linear] x [2, 4] does not fit weight [3, 5]"));
  EXPECT_THAT(refusal([&] { shardproof::linear(x, w.to(at::kDouble), std::nullopt); }), HasSubstr("weight is fp64; fp32"));
  EXPECT_THAT(refusal([&] { shardproof::linear(x, w, at::ones({4})); }), HasSubstr("bias is [4]; [3]"));
  EXPECT_THAT(refusal([&] { shardproof::linear(x, at::ones({4}), std::nullopt); }), HasSubstr("[O, I]"));
}

}  // namespace
}  // namespace shardproof::test
