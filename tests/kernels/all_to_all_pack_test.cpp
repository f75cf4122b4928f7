#include "kernels/all_to_all_pack.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;
using Sizes = std::vector<int64_t>;

/// Distinct values, so that any permutation shows.
Tensor distinct(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::arange(c10::multiply_integers(shape), dtype).view(shape);
}

Tensor concatenated(const std::vector<Tensor>& chunks) {
  std::vector<Tensor> flat;
  for (const auto& chunk : chunks) flat.push_back(chunk.flatten());
  return at::cat(flat);
}

TEST(Pack, ChunksInRankOrder) {
  for (const int64_t B : {1, 2})
    for (const Sizes& sizes : {Sizes{4}, {2, 2}, {1, 1, 1, 1}, {2, 1, 1}, {1, 3}, {0, 4}, {4, 0}}) {
      const auto x = distinct({B, 4, 4, 3});  // H == S: a swapped dim must not slip by
      EXPECT_TRUE(at::equal(pack_heads(x, sizes), concatenated(x.split_with_sizes(sizes, 2))));
      EXPECT_TRUE(at::equal(pack_sequence(x, sizes), concatenated(x.split_with_sizes(sizes, 1))));
    }
}

TEST(Pack, UnpackIsTheInverse) {
  for (const int64_t B : {1, 2})
    for (const Sizes& sizes : {Sizes{2, 3}, {5}, {0, 2, 3}, {1, 1, 1, 1, 1}}) {
      const auto by_head = distinct({B, 7, 5, 2}), by_token = distinct({B, 5, 3, 2});
      EXPECT_TRUE(at::equal(unpack_heads(pack_heads(by_head, sizes), B, 7, sizes, 2), by_head));
      EXPECT_TRUE(at::equal(unpack_sequence(pack_sequence(by_token, sizes), B, sizes, 3, 2), by_token));
    }
}

TEST(Pack, HandWorked) {  // B 1, S 2, H 2, D 1: [[t0h0, t0h1], [t1h0, t1h1]]
  const auto x = at::tensor({0., 1., 10., 11.}).view({1, 2, 2, 1});
  EXPECT_TRUE(at::equal(pack_heads(x, {1, 1}), at::tensor({0., 10., 1., 11.})));
  EXPECT_TRUE(at::equal(pack_sequence(x, {1, 1}), at::tensor({0., 1., 10., 11.})));
  EXPECT_TRUE(at::equal(unpack_heads(at::tensor({0., 10., 1., 11.}), 1, 2, {1, 1}, 1), x));
}

/// Both all-to-alls of Ulysses by hand: tokens sharded unevenly, heads sharded unevenly, and back.
TEST(Pack, AWholeUlyssesRoundTrip) {
  const auto whole = distinct({2, 5, 4, 3});
  const Sizes lengths{3, 2}, heads{1, 3};
  const auto shards = whole.split_with_sizes(lengths, 1);
  std::vector<std::vector<Tensor>> sent(2), returned(2);
  for (int rank = 0; rank < 2; ++rank)
    sent[rank] =
        pack_heads(shards[rank], heads).split_with_sizes({2 * lengths[rank] * heads[0] * 3, 2 * lengths[rank] * heads[1] * 3});
  for (int rank = 0; rank < 2; ++rank) {
    const auto mine = unpack_sequence(at::cat({sent[0][rank], sent[1][rank]}), 2, lengths, heads[rank], 3);
    EXPECT_TRUE(at::equal(mine, whole.split_with_sizes(heads, 2)[rank]));
    returned[rank] =
        pack_sequence(mine, lengths).split_with_sizes({2 * lengths[0] * heads[rank] * 3, 2 * lengths[1] * heads[rank] * 3});
  }
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(
        at::equal(unpack_heads(at::cat({returned[0][rank], returned[1][rank]}), 2, lengths[rank], heads, 3), shards[rank]));
}

TEST(Pack, AnyDtypeAndStrides) {
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt}) {
    const auto x = distinct({2, 3, 4, 2}, dtype);
    EXPECT_TRUE(at::equal(pack_heads(x.transpose(1, 2), {1, 2}), concatenated(x.transpose(1, 2).split_with_sizes({1, 2}, 2))));
    const auto flat = pack_heads(x, {3, 1});
    EXPECT_TRUE(at::equal(unpack_heads(at::stack({flat, flat + 1}, 1).select(1, 0), 2, 3, {3, 1}, 2), x));
  }
}

TEST(Pack, Empty) {
  EXPECT_EQ(pack_heads(at::zeros({2, 0, 4, 3}), {2, 2}).numel(), 0);
  EXPECT_EQ(unpack_sequence(at::zeros({0}), 1, {0, 0}, 2, 3).sizes(), at::IntArrayRef({1, 0, 2, 3}));
}

TEST(Pack, RefusesWhatDoesNotFit) {
  const auto x = distinct({1, 4, 4, 2});
  EXPECT_THAT(refusal([&] { pack_heads(x, {2, 1}); }), HasSubstr("[pack_heads] head sizes [2, 1] add up to 3; x has 4"));
  EXPECT_THAT(refusal([&] { pack_sequence(x, {5, -1}); }), HasSubstr("[5, -1] holds a negative size"));
  EXPECT_THAT(refusal([&] { pack_sequence(x[0], {4}); }), HasSubstr("x is [4, 4, 2]"));
  EXPECT_THAT(refusal([&] {
                unpack_heads(at::zeros({7}), 1, 2, {1, 1}, 2);
              }),
              HasSubstr("the buffer is [7]; one dim of 8 elements is needed, for [1, 2, 2, 2]"));
  EXPECT_THAT(refusal([&] { unpack_sequence(x, 1, {4}, 4, 2); }), HasSubstr("[unpack_sequence] the buffer is [1, 4, 4, 2]"));
  EXPECT_THAT(refusal([&] { unpack_sequence({}, 1, {4}, 4, 2); }), HasSubstr("undefined"));
}

}  // namespace
}  // namespace shardproof::test
