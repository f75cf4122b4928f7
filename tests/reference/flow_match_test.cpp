#include "reference/flow_match.hpp"

#include "models/flow_match.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace shardproof {
namespace {

TEST(FlowMatch, OneStepGoesFromOneToZero) {
  EXPECT_EQ(reference::flow_match_sigmas(1, 4096), (std::vector<double>{1.0, 0.0}));
}

TEST(FlowMatch, TwoStepsAt4096TokensByHand) {  // mu = 1.15; 0.5 -> e^1.15 / (e^1.15 + 1)
  const auto sigmas = reference::flow_match_sigmas(2, 4096);
  ASSERT_EQ(sigmas.size(), 3u);
  EXPECT_DOUBLE_EQ(sigmas[1], std::exp(1.15) / (std::exp(1.15) + 1));
}

TEST(FlowMatch, NativeAgreesWithReference) {
  for (const int64_t steps : {1, 2, 4, 28, 50})
    for (const int64_t tokens : {48, 256, 3969, 4096}) {
      const auto expected = reference::flow_match_sigmas(steps, tokens), found = flow_match_sigmas(steps, tokens);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << steps << " " << tokens;
    }
}

TEST(FlowMatch, EulerStepByHand) {
  const Tensor next = euler_step(at::full({2}, 3.0, at::kDouble), at::full({2}, 2.0, at::kDouble), 0.75, 0.5);
  EXPECT_TRUE(at::equal(next, at::full({2}, 2.5, at::kDouble)));  // 3 + (0.5 - 0.75) * 2
  EXPECT_EQ(euler_step(at::ones({1}, at::kHalf), at::ones({1}, at::kHalf), 1, 0).scalar_type(), at::kHalf);
}

}  // namespace
}  // namespace shardproof
