#include "models/full_weights.hpp"
#include "models/synthetic_weights.hpp"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

/// Cast and then sliced, or sliced and then cast: the same bits, and a slice owns just its own storage.
TEST(FullWeights, GiveTheBitsThatSlicedReadsGive) {
  const std::map<std::string, std::vector<int64_t>> shapes{{"a", {8, 4}}, {"b", {6}}};
  SyntheticWeights stored(shapes, 3, at::kFloat), again(shapes, 3, at::kFloat);
  FullWeights full(stored, at::kBFloat16);
  EXPECT_EQ(full.bytes_read(), (8 * 4 + 6) * 4);
  EXPECT_EQ(full.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(full.find("a")->dtype, at::kBFloat16);
  EXPECT_EQ(full.find("c"), nullptr);
  for (const Slice& slice : {Slice{}, Slice{0, {{2, 2}}}, Slice{1, {{0, 1}, {3, 1}}}}) {
    const Tensor cut = full.read("a", slice);
    EXPECT_TRUE(at::equal(cut, again.read("a", slice).to(at::kBFloat16)));
    EXPECT_EQ(cut.storage().nbytes(), cut.nbytes());
    EXPECT_EQ(cut.use_count(), 1);
  }
  EXPECT_THROW(full.read("c"), Error);
}

}  // namespace
}  // namespace shardproof
