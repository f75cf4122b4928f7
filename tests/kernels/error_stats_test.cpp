#include "kernels/error_stats.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor row(std::vector<double> values) { return at::tensor(values, at::kDouble); }

TEST(ErrorStats, HandWorked) {  // errors 0, 0, 3, -4; reference norm 10
  const auto s = error_stats(row({1, 5, 10, 1}).view({2, 2}), row({1, 5, 7, 5}).view({2, 2}));
  EXPECT_DOUBLE_EQ(s.relative_l2, 0.5);
  EXPECT_DOUBLE_EQ(s.max_abs, 4);
  EXPECT_DOUBLE_EQ(s.max_rel, 0.8);
  EXPECT_DOUBLE_EQ(s.reference_norm, 10);
  EXPECT_DOUBLE_EQ(s.cosine, (1 + 25 + 70 + 5) / (std::sqrt(127.0) * 10));
  EXPECT_DOUBLE_EQ(s.psnr_db, 20 * std::log10(6 / 2.5));
  EXPECT_THAT(s.worst_index, testing::ElementsAre(1, 1));
  EXPECT_EQ(s.count, 4);
  EXPECT_TRUE(s.finite);
}

TEST(ErrorStats, EqualTensors) {
  const auto x = normal({3, 4}, "x");
  const auto s = error_stats(x, x.clone());
  EXPECT_EQ(s.relative_l2, 0);
  EXPECT_EQ(s.max_rel, 0);
  EXPECT_NEAR(s.cosine, 1, 1e-15);
  EXPECT_EQ(s.psnr_db, infinity);
}

TEST(ErrorStats, Zeros) {
  const auto zero = at::zeros({2}), one = at::ones({2});
  EXPECT_EQ(error_stats(zero, zero).relative_l2, 0);
  EXPECT_EQ(error_stats(zero, zero).cosine, 1);
  EXPECT_EQ(error_stats(one, zero).relative_l2, infinity);
  EXPECT_EQ(error_stats(one, zero).max_rel, infinity);
  EXPECT_EQ(error_stats(one, zero).cosine, 0);
  EXPECT_EQ(error_stats(zero, one).relative_l2, 1);
  EXPECT_EQ(error_stats(zero, one).cosine, 0);
  EXPECT_EQ(error_stats(zero, one).psnr_db, -infinity);  // no range, some error
  EXPECT_EQ(error_stats(at::zeros({0, 3}), at::zeros({0, 3})).count, 0);
  EXPECT_EQ(error_stats(at::zeros({0, 3}), at::zeros({0, 3})).relative_l2, 0);
}

TEST(ErrorStats, NotFinite) {
  for (const double bad : {static_cast<double>(NAN), infinity, -infinity})
    for (const bool in_reference : {false, true}) {
      auto x = normal({100, 100}, "x");
      const auto clean = x.clone();
      x[57][3] = bad;
      x[60][0] = bad;
      const auto s = in_reference ? error_stats(clean, x) : error_stats(x, clean);
      EXPECT_FALSE(s.finite);
      EXPECT_EQ(s.relative_l2, infinity);
      EXPECT_THAT(s.worst_index, testing::ElementsAre(57, 3));
    }
}

TEST(ErrorStats, TinyErrorsAreMeasured) {
  const auto ref = normal({1000, 200}, "x");
  const auto x = ref * (1 + 0x1p-50);  // exact to within a rounding of 2^-53
  EXPECT_NEAR(error_stats(x, ref).relative_l2, 0x1p-50, 0x1p-52);
  auto one = ref.clone();
  one[999][199] += 1e-9;
  EXPECT_NEAR(error_stats(one, ref).relative_l2 * error_stats(one, ref).reference_norm / 1e-9, 1, 1e-5);
}

TEST(ErrorStats, ManyElementsLoseNothing) {  // a plain running sum is off by 1e-12 here
  const int64_t n = 3000001;
  const auto ref = at::full({n}, 0.1, at::kDouble);
  const auto s = error_stats(ref * 3, ref);
  EXPECT_NEAR(s.relative_l2, 2, 1e-14);
  EXPECT_NEAR(s.reference_norm / (0.1 * std::sqrt(static_cast<double>(n))), 1, 1e-15);
}

TEST(ErrorStats, SmallTermsNextToALargeOneCount) {  // each square is lost when added to 1; together they are 2e-13
  auto ref = at::full({4096}, 7e-9, at::kDouble);
  ref[0] = 1;
  EXPECT_NEAR(error_stats(ref, ref).reference_norm - 1, 0.5 * 4095 * 49e-18, 1e-15);
}

TEST(ErrorStats, TheFirstOfEqualErrorsIsTheWorst) {
  const auto ref = at::zeros({3, 5000});
  const auto x = ref.clone();
  for (const auto& [i, j] : {std::pair{0, 7}, {0, 9}, {2, 4999}}) x[i][j] = 1;
  EXPECT_THAT(error_stats(x, ref).worst_index, testing::ElementsAre(0, 7));
}

TEST(ErrorStats, EndsOfTheRange) {
  for (const double scale : {1e-300, 1e-170, 1e170, 1e300}) {
    const auto s = error_stats(row({3, 4.5}) * scale, row({3, 4}) * scale);
    EXPECT_NEAR(s.relative_l2, 0.1, 1e-14) << scale;
    EXPECT_NEAR(s.cosine, 27 / (std::sqrt(29.25) * 5), 1e-14) << scale;
  }
}

TEST(ErrorStats, OrderMatters) {  // the meta-test of cases.md: two permuted columns are no match
  const auto ref = normal({8, 6}, "x");
  EXPECT_FALSE(passes(ref.index_select(1, at::tensor({0, 2, 1, 3, 4, 5})), ref));
  EXPECT_FALSE(passes(ref.view({6, 8}), ref));
}

TEST(ErrorStats, MixedDtypesAndStrides) {
  const auto ref = normal({5, 7}, "x");
  for (const auto dtype : dtypes()) EXPECT_LE(error_stats(ref.to(dtype), ref).relative_l2, dtype_eps(dtype) / 2);
  EXPECT_EQ(error_stats(spread(ref), ref).relative_l2, 0);
  EXPECT_EQ(error_stats(ref.t(), ref.t().contiguous()).relative_l2, 0);
  EXPECT_EQ(error_stats(at::arange(4), at::arange(4, at::kDouble)).relative_l2, 0);
  EXPECT_TRUE(error_stats(at::ones({}), at::ones({})).worst_index.empty());
}

TEST(ErrorStats, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal([] {
                error_stats(at::ones({2, 3}), at::ones({3, 2}));
              }),
              HasSubstr("[error_stats] shapes [2, 3] and [3, 2] differ"));
  EXPECT_THAT(refusal([] { error_stats(at::ones({2}), {}); }), HasSubstr("undefined"));
  EXPECT_THAT(refusal([] { error_stats(at::ones({2}, at::kComplexDouble), at::ones({2})); }), HasSubstr("complex"));
}

}  // namespace
}  // namespace shardproof::test
