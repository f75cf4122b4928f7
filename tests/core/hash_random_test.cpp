#include "core/hash.hpp"
#include "core/random.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Hash, SeesEveryByte) {
  const Tensor x = at::arange(64, at::kByte);
  const uint64_t hash = tensor_hash(x);
  for (int64_t i = 0; i < 64; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      Tensor y = x.clone();
      y[i] = y[i].item<int>() ^ (1 << bit);
      EXPECT_NE(tensor_hash(y), hash) << i << " " << bit;
    }
}

TEST(Hash, IsOfValuesShapeAndDtype) {
  const Tensor x = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_EQ(tensor_hash(x.t().contiguous().t()), tensor_hash(x));  // strides do not count
  EXPECT_NE(tensor_hash(x.view({3, 2})), tensor_hash(x));
  EXPECT_NE(tensor_hash(at::zeros({2}, at::kFloat)), tensor_hash(at::zeros({2}, at::kInt)));
  EXPECT_EQ(hash_hex(255), "00000000000000ff");
}

TEST(Random, DependsOnSeedNameAndIndexOnly) {
  const Tensor x = seeded_normal({4, 5}, 1, "w");
  EXPECT_TRUE(at::equal(x, seeded_normal({4, 5}, 1, "w")));
  EXPECT_TRUE(at::equal(x.flatten(), seeded_normal({20}, 1, "w")));
  EXPECT_TRUE(at::equal(x.flatten().slice(0, 0, 7), seeded_normal({7}, 1, "w")));
  EXPECT_FALSE(at::equal(x, seeded_normal({4, 5}, 2, "w")));
  EXPECT_FALSE(at::equal(x, seeded_normal({4, 5}, 1, "v")));
}

TEST(Random, IsStandardNormal) {
  const Tensor x = seeded_normal({200000}, 3, "moments");
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(x.square().mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(x.pow(3).mean().item<double>(), 0, 0.04);
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 0.1);
  EXPECT_NEAR((x.slice(0, 1) * x.slice(0, 0, -1)).mean().item<double>(), 0, 0.01);
}

}  // namespace
}  // namespace shardproof
