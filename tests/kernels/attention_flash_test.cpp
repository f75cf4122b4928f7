// Every way kokkos_flash can multiply its tiles, each against the formula in fp64: which one runs by itself depends on the
// processor, and all of them must be right on all processors that run them.

#include "kernels/attention_flash.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Path {
  FlashProducts products;
  at::ScalarType dtype;
};

std::string path_name(const Path& path) {
  const auto* name = path.products == FlashProducts::portable ? "portable"
                     : path.products == FlashProducts::brgemm ? "brgemm"
                                                              : "brgemm_fp32";
  return fmt::format("{}_{}", name, dtype_name(path.dtype));
}

std::vector<Path> paths() {
  std::vector<Path> all;
  for (const auto dtype : dtypes())
    for (const auto products : {FlashProducts::portable, FlashProducts::brgemm_fp32, FlashProducts::brgemm})
      if (!(dtype == at::kDouble && products != FlashProducts::portable) &&
          !(dtype == at::kFloat && products == FlashProducts::brgemm_fp32))
        all.push_back({products, dtype});
  return all;
}

class FlashPath : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    const auto possible = flash_products(dtype);
    if (std::find(possible.begin(), possible.end(), GetParam().products) == possible.end())
      GTEST_SKIP() << "this processor has no brgemm for these operands";
    flash = make_kokkos_flash(GetParam().products);
  }

  Qkv rounded(const Qkv& x) const { return {x.q.to(dtype), x.k.to(dtype), x.v.to(dtype)}; }

  /// One rounding of the result, and one of the weights where brgemm takes them in 16 bits; rows that saw no key exact.
  void expect_right(const Qkv& x, const std::optional<Tensor>& mask, const std::string& what) const {
    const auto right = attention_reference(x.q, x.k, x.v, mask);
    const auto seen = right.lse_BSH.isfinite(), unseen = seen.logical_not();
    for (const bool keep : {false, true}) {
      const auto got = flash->forward(x.q, x.k, x.v, mask, keep);
      const double wide = dtype == at::kDouble ? gate : 3e-6;  // the accumulator's precision, kept
      EXPECT_LE(relative_l2(got.out_BSHD, right.out_BSHD), keep ? wide : std::max(wide, dtype_eps(dtype))) << what << keep;
      EXPECT_LE(relative_l2(got.lse_BSH.masked_select(seen) + 1, right.lse_BSH.masked_select(seen) + 1), wide) << what;
      EXPECT_TRUE((got.lse_BSH.masked_select(unseen) == -infinity).all().item<bool>()) << what;
      EXPECT_TRUE((got.out_BSHD.masked_select(unseen.unsqueeze(-1)) == 0).all().item<bool>()) << what;
    }
  }

  at::ScalarType dtype = GetParam().dtype;
  std::unique_ptr<AttentionBackend> flash;
};

TEST_P(FlashPath, SizesThatFitNoTile) {
  for (const int64_t D : {1, 5, 6, 64, 72, 128, 200})
    for (const auto& [S, T] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 70}, {67, 64}, {130, 257}})
      expect_right(rounded(family("structured", 2, S, T, 2, 2, D)), std::nullopt, fmt::format("S{} T{} D{}", S, T, D));
}

TEST_P(FlashPath, SeveralTilesOfQueriesAndKeys) {
  for (const auto& name : families()) expect_right(rounded(family(name, 1, 1030, 650, 1, 1, 16)), std::nullopt, name);
}

TEST_P(FlashPath, KeyMasks) {
  for (const int64_t B : {1, 2, 4}) {
    const auto x = rounded(family("negative_logits", B, 37, 600, 2, 2, 20));
    auto mask = normal({B, 600}, "mask") > 0;
    if (B > 1) mask[1].fill_(false);                   // sees nothing
    if (B > 2) mask[2].slice(0, 0, 590).fill_(false);  // every tile but the last
    if (B > 3) mask[3].slice(0, 1).fill_(false);       // one key
    expect_right(x, mask, fmt::format("B{}", B));
  }
}

TEST_P(FlashPath, FewerKeyValueHeads) {
  for (const int64_t kv : {1, 2, 3}) expect_right(rounded(family("structured", 2, 19, 90, 6, kv, 64)), std::nullopt, "GQA");
}

TEST_P(FlashPath, NothingAMaskedKeyHoldsReachesTheResult) {
  auto x = rounded(family("randn", 1, 4, 70, 1, 1, 8));
  const auto mask = (at::arange(70) < 66).view({1, 70});
  const auto right = flash->forward(x.q, x.k, x.v, mask);
  x.k.slice(1, 66).fill_(NAN);
  x.v.slice(1, 66).fill_(NAN);
  EXPECT_TRUE(at::equal(flash->forward(x.q, x.k, x.v, mask).out_BSHD, right.out_BSHD));
}

TEST_P(FlashPath, NotANumberComesThrough) {
  auto x = rounded(family("randn", 1, 3, 70, 1, 1, 8));
  x.q[0][1].fill_(NAN);
  const auto got = flash->forward(x.q, x.k, x.v, std::nullopt).out_BSHD[0];
  EXPECT_TRUE(got[1].isnan().all().item<bool>());
  EXPECT_TRUE(got[0].isfinite().all().item<bool>() && got[2].isfinite().all().item<bool>());
}

TEST_P(FlashPath, LargeLogitsDoNotOverflow) {
  const auto x = rounded({normal({1, 6, 1, 16}, "q") * 300, normal({1, 300, 1, 16}, "k") * 100, normal({1, 300, 1, 16}, "v")});
  EXPECT_LE(relative_l2(flash->forward(x.q, x.k, x.v, std::nullopt).out_BSHD, attention_reference(x.q, x.k, x.v).out_BSHD),
            std::max(2e-2 * (dtype != at::kDouble), gate));
}

TEST_P(FlashPath, AHeadsBitsDependOnNothingElseInTheCall) {
  const auto x = rounded(family("randn", 3, 530, 300, 4, 4, 40));
  const auto all = flash->forward(x.q, x.k, x.v, std::nullopt);
  EXPECT_TRUE(at::equal(flash->forward(x.q, x.k, x.v, std::nullopt).out_BSHD, all.out_BSHD)) << "run to run";
  const auto part = [](const Tensor& t) { return t.slice(0, 1, 2).slice(2, 1, 3); };
  for (const bool compact : {false, true}) {
    const auto take = [&](const Tensor& t) { return compact ? part(t).contiguous() : part(t); };
    const auto some = flash->forward(take(x.q), take(x.k), take(x.v), std::nullopt);
    EXPECT_TRUE(at::equal(some.out_BSHD, part(all.out_BSHD)));
    EXPECT_TRUE(at::equal(some.lse_BSH, part(all.lse_BSH)));
  }
}

TEST_P(FlashPath, NoWorseThanLibTorch) {
  for (const int64_t D : {64, 128}) {
    const auto x = rounded(family("randn", 1, 700, 700, 2, 2, D));
    const auto right = attention_reference(x.q, x.k, x.v).out_BSHD;
    const auto error = [&](AttentionBackend& backend) {
      return relative_l2(backend.forward(x.q, x.k, x.v, std::nullopt).out_BSHD, right);
    };
    EXPECT_LE(error(*flash), 1.1 * error(*make_attention_backend("aten_flash"))) << D;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, FlashPath, testing::ValuesIn(paths()), [](const auto& info) { return path_name(info.param); });

TEST(FlashProducts, TheFastestFirstAndThePortableAlways) {
  for (const auto dtype : dtypes()) {
    const auto possible = flash_products(dtype);
    EXPECT_EQ(possible.back(), FlashProducts::portable);
    EXPECT_EQ(possible.size() == 1, dtype == at::kDouble || !brgemm_multiplies(at::kFloat));
    const auto x = family("randn", 1, 9, 40, 1, 1, 8);
    const auto q = x.q.to(dtype), k = x.k.to(dtype), v = x.v.to(dtype);
    EXPECT_TRUE(at::equal(make_attention_backend("kokkos_flash")->forward(q, k, v, std::nullopt).out_BSHD,
                          make_kokkos_flash(possible.front())->forward(q, k, v, std::nullopt).out_BSHD));
  }
}

TEST(FlashProducts, RefusesWhatTheProcessorDoesNotRun) {
  const auto x = normal({1, 2, 1, 4}, "x");
  EXPECT_THROW(make_kokkos_flash(FlashProducts::brgemm)->forward(x, x, x, std::nullopt), Error);
}

}  // namespace
}  // namespace shardproof::test
