#include "models/synthetic_weights.hpp"

#include "core/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace shardproof {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;
const Shapes shapes{{"a.weight", {8, 4}}, {"a.bias", {8}}, {"norm.weight", {6}}, {"conv.weight", {2, 3, 5}}, {"empty", {0, 4}}};

TEST(SyntheticWeights, AreScaledByWhatTheyAre) {
  SyntheticWeights weights(shapes, 7, at::kDouble);
  EXPECT_TRUE(at::allclose(weights.read("a.weight"), seeded_normal({8, 4}, 7, "a.weight") / 2, 1e-15, 0));
  EXPECT_TRUE(at::allclose(weights.read("a.bias"), seeded_normal({8}, 7, "a.bias") * 0.1, 1e-15, 0));
  EXPECT_TRUE(at::allclose(weights.read("norm.weight"), 1 + 0.2 * seeded_normal({6}, 7, "norm.weight"), 1e-15, 0));
  EXPECT_TRUE(at::allclose(weights.read("conv.weight"), seeded_normal({2, 3, 5}, 7, "conv.weight") / std::sqrt(15.0), 1e-15, 0));
  EXPECT_EQ(weights.read("empty").sizes(), (at::IntArrayRef{0, 4}));
}

TEST(SyntheticWeights, DependOnSeedAndNameAlone) {
  SyntheticWeights some({{"a.weight", {8, 4}}}, 7, at::kFloat), all(shapes, 7, at::kFloat), other(shapes, 8, at::kFloat);
  all.read("norm.weight");
  EXPECT_TRUE(at::equal(some.read("a.weight"), all.read("a.weight")));
  EXPECT_FALSE(at::equal(other.read("a.weight"), all.read("a.weight")));
  SyntheticWeights renamed({{"b.weight", {8, 4}}}, 7, at::kFloat);
  EXPECT_FALSE(at::equal(renamed.read("b.weight"), all.read("a.weight")));
}

TEST(SyntheticWeights, SlicesAreSlicesOfTheWholeAndOwnTheirBytes) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    SyntheticWeights weights(shapes, 7, dtype);
    const Tensor whole = weights.read("a.weight");
    EXPECT_EQ(whole.scalar_type(), dtype);
    for (int rank = 0; rank < 2; ++rank) {
      for (const int64_t dim : {0, 1}) {
        const int64_t before = weights.bytes_read();
        const Tensor part = weights.read("a.weight", {dim, packed_share(whole.size(dim), {}, 2, rank)});
        EXPECT_TRUE(at::equal(part, whole.chunk(2, dim)[rank]));
        EXPECT_EQ(part.storage().nbytes() * 2, whole.nbytes());
        EXPECT_EQ((weights.bytes_read() - before) * 2, static_cast<int64_t>(whole.nbytes()));
        EXPECT_TRUE(part.is_contiguous());
      }
      const Tensor packed = weights.read("a.weight", {0, packed_share(8, {1, 3}, 2, rank)});
      EXPECT_TRUE(at::equal(packed, at::cat({whole.narrow(0, rank, 1), whole.narrow(0, 2 + 3 * rank, 3)})));
    }
    EXPECT_EQ(weights.read("a.weight", {0, {{3, 0}}}).sizes(), (at::IntArrayRef{0, 4}));
  }
}

TEST(SyntheticWeights, LowPrecisionIsTheRoundedDouble) {
  SyntheticWeights exact(shapes, 7, at::kDouble), low(shapes, 7, at::kBFloat16);
  EXPECT_TRUE(at::equal(low.read("a.weight"), exact.read("a.weight").to(at::kBFloat16)));
}

TEST(SyntheticWeights, UnknownNamesAndImpossibleSlicesAreRefused) {
  SyntheticWeights weights(shapes, 7, at::kFloat);
  EXPECT_EQ(weights.find("nope"), nullptr);
  EXPECT_THAT([&] { weights.read("nope"); }, testing::ThrowsMessage<Error>(testing::HasSubstr("\"nope\"")));
  EXPECT_THAT(
      [&] {
        weights.read("a.weight", {1, {{3, 2}}});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("\"a.weight\"")));
  EXPECT_EQ(weights.bytes_read(), 0);
}

TEST(SyntheticWeights, NamesAreSortedAndHashTellsThemApart) {
  SyntheticWeights weights(shapes, 7, at::kFloat);
  EXPECT_THAT(weights.names(), testing::ElementsAre("a.bias", "a.weight", "conv.weight", "empty", "norm.weight"));
  EXPECT_EQ(*weights.find("a.bias"), (TensorInfo{at::kFloat, {8}}));
  EXPECT_THAT(weights.hash(), testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(weights.hash(), SyntheticWeights(shapes, 7, at::kFloat).hash());
  EXPECT_NE(weights.hash(), SyntheticWeights(shapes, 8, at::kFloat).hash());
  EXPECT_NE(weights.hash(), SyntheticWeights(shapes, 7, at::kDouble).hash());
  EXPECT_NE(weights.hash(), SyntheticWeights({{"a.weight", {8, 4}}}, 7, at::kFloat).hash());
}

}  // namespace
}  // namespace shardproof
