#include "core/shard.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(Shard, UnevenSharesGiveTheFirstRanksOneMore) {
  EXPECT_EQ(uneven_sizes(17, 8), (std::vector<int64_t>{3, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(uneven_sizes(3, 8), (std::vector<int64_t>{1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(uneven_sizes(6, 4), (std::vector<int64_t>{2, 2, 1, 1}));  // torch.chunk(6, 4) would give three
  EXPECT_EQ(uneven_share(3, 2, 1), (Range{2, 1}));
  EXPECT_EQ(uneven_share(2, 4, 3), (Range{2, 0}));
  EXPECT_EQ(uneven_sizes(0, 3), (std::vector<int64_t>{0, 0, 0}));
}

TEST(Shard, UnevenSharesCoverEverythingOnce) {
  for (int64_t length = 0; length < 40; ++length)
    for (int64_t parts = 1; parts < 12; ++parts) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < parts; ++rank) {
        const Range share = uneven_share(length, parts, rank);
        EXPECT_EQ(share.begin, next);
        next = share.end();
      }
      EXPECT_EQ(next, length);
    }
}

TEST(Shard, SplittingTheJointSequenceIsNotJoiningTheSplits) {  // diffusers#12996: text 5, image 9 on 4 ranks
  const auto text = uneven_sizes(5, 4), image = uneven_sizes(9, 4);
  std::vector<int64_t> joint;
  for (size_t i = 0; i < 4; ++i) joint.push_back(text[i] + image[i]);
  EXPECT_EQ(joint, (std::vector<int64_t>{5, 3, 3, 3}));
  EXPECT_EQ(uneven_sizes(14, 4), (std::vector<int64_t>{4, 4, 3, 3}));
}

TEST(Shard, EvenShareRefusesWhatDoesNotDivide) {
  EXPECT_EQ(even_share(12, 4, 2), (Range{6, 3}));
  test::expect_error(Fault::input, {"3969", "4"}, [] { even_share(3969, 4, 0); });
  test::expect_error(Fault::input, {"rank 4"}, [] { even_share(12, 4, 4); });
  test::expect_error(Fault::input, {"0 parts"}, [] { even_share(12, 0, 0); });
}

TEST(Shard, BlocksAreProportionsOrSizes) {
  EXPECT_EQ(block_sizes(18, {1, 1, 1, 3, 3}), (std::vector<int64_t>{2, 2, 2, 6, 6}));
  EXPECT_EQ(block_sizes(18, {2, 2, 2, 6, 6}), (std::vector<int64_t>{2, 2, 2, 6, 6}));
  EXPECT_EQ(block_sizes(8, {}), (std::vector<int64_t>{8}));
  test::expect_error(Fault::input, {"[2, 3]", "12"}, [] { block_sizes(12, {2, 3}); });
  test::expect_error(Fault::input, {"[0, 4]"}, [] { block_sizes(8, {0, 4}); });
}

/// Row or column numbers a rank holds.
std::vector<int64_t> held(int64_t length, const std::vector<int64_t>& blocks, int64_t parts, int64_t rank) {
  std::vector<int64_t> indices;
  for (const Range& range : packed_share(length, blocks, parts, rank))
    for (int64_t i = range.begin; i < range.end(); ++i) indices.push_back(i);
  return indices;
}

TEST(Shard, PackedColumnsOfFlux2ToOut) {  // sglang#21664: blocks [1, 3], attention 2 + mlp 6
  EXPECT_EQ(held(8, {1, 3}, 2, 0), (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT_EQ(held(8, {1, 3}, 2, 1), (std::vector<int64_t>{1, 5, 6, 7}));
}

TEST(Shard, PackedRowsOfFusedQkvMlp) {  // vllm#3775: [1, 1, 1, 3, 3] of 18 rows
  EXPECT_EQ(held(18, {1, 1, 1, 3, 3}, 2, 0), (std::vector<int64_t>{0, 2, 4, 6, 7, 8, 12, 13, 14}));
  EXPECT_EQ(held(18, {1, 1, 1, 3, 3}, 2, 1), (std::vector<int64_t>{1, 3, 5, 9, 10, 11, 15, 16, 17}));
}

TEST(Shard, PackedShareNamesTheBlockThatDoesNotDivide) {  // the sum 16 is even, block 3 of size 5 is not
  test::expect_error(Fault::input, {"block 3", "size 5", "by 2"}, [] { packed_share(16, {2, 2, 2, 5, 5}, 2, 0); });
}

}  // namespace
}  // namespace shardproof
