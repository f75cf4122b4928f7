#include "kernels/merge.hpp"
#include "tests/kernels/compare.hpp"

#include <algorithm>

namespace shardproof::test {
namespace {

using testing::HasSubstr;

constexpr float infinity = std::numeric_limits<float>::infinity();

Attended partial(float out, float lse) { return {at::full({1, 1, 1, 1}, out), at::full({1, 1, 1}, lse)}; }

Attended merged(Attended into, const Attended& other) {
  into = {into.out_BSHD.clone(), into.lse_BSH.clone()};
  merge_partial(into, other);
  return into;
}

/// Ring attention on one device: keys cut into `ring` blocks, merged in order into partials of `dtype`.
Attended in_blocks(AttentionBackend& backend, const Qkv& x, int64_t ring, const std::optional<Tensor>& mask = std::nullopt) {
  const auto ks = x.k.tensor_split(ring, 1), vs = x.v.tensor_split(ring, 1);
  const auto masks = mask ? mask->tensor_split(ring, 1) : std::vector<Tensor>();
  const auto block = [&](int64_t i) {
    return backend.forward(x.q, ks[i], vs[i], mask ? std::optional(masks[i]) : std::nullopt, true);
  };
  Attended sum = block(0);
  for (int64_t i = 1; i < ring; ++i) merge_partial(sum, block(i));
  return sum;
}

TEST(Merge, BlocksEqualTheWholeInFp64) {
  const auto backend = make_attention_backend("kokkos_flash");
  for (const auto& name : families())
    for (const int64_t ring : {2, 3, 4, 6, 8}) {
      const auto x = family(name, 2, 9, 77, 4, 2, 10);
      const auto got = in_blocks(*backend, x, ring), right = attention_reference(x.q, x.k, x.v);
      EXPECT_LE(relative_l2(got.out_BSHD, right.out_BSHD), gate) << name << ring;
      EXPECT_LE(relative_l2(got.lse_BSH, right.lse_BSH), gate) << name << ring;
    }
}

TEST(Merge, MaskedBlocks) {
  const auto x = family("negative_logits", 2, 5, 24, 2, 2, 6);
  auto mask = normal({2, 24}, "mask") > 0;
  mask[0].slice(0, 0, 8).fill_(false);    // the first block sees nothing
  mask[1].slice(0, 16, 24).fill_(false);  // the last one
  const auto got = in_blocks(*make_attention_backend("kokkos_naive"), x, 3, mask),
             right = attention_reference(x.q, x.k, x.v, mask);
  EXPECT_LE(relative_l2(got.out_BSHD, right.out_BSHD), gate);
  EXPECT_LE(relative_l2(got.lse_BSH, right.lse_BSH), gate);
}

TEST(Merge, FarApartSidesDoNotOverflow) {  // D-05 (a), and every difference around the fp32 limit of exp, 88.7
  const auto backend = make_attention_backend("kokkos_flash");
  const auto one = at::ones({1, 1, 1, 1});
  const auto block = [&](float k, float v) { return backend->forward(one, one * k, one * v, std::nullopt); };
  for (const float k : {88.f, 89.f, 100.f, 1e4f})
    for (const auto& got : {merged(block(0, 1), block(k, 3)), merged(block(k, 3), block(0, 1))}) {
      EXPECT_EQ(got.out_BSHD.item<float>(), 3.0f) << k;
      EXPECT_EQ(got.lse_BSH.item<float>(), k);
    }
}

TEST(Merge, ASideThatHasSeenNothingIsNotRead) {  // D-05 (c)
  for (const auto& got : {merged(partial(0, -infinity), partial(5, 1)), merged(partial(5, 1), partial(NAN, -infinity))}) {
    EXPECT_EQ(got.out_BSHD.item<float>(), 5.0f);
    EXPECT_EQ(got.lse_BSH.item<float>(), 1.0f);
  }
  const auto none = merged(partial(0, -infinity), partial(0, -infinity));
  EXPECT_EQ(none.out_BSHD.item<float>(), 0.0f);
  EXPECT_EQ(none.lse_BSH.item<float>(), -infinity);
}

TEST(Merge, NotANumberIsNotHidden) {
  EXPECT_TRUE(std::isnan(merged(partial(1, NAN), partial(1, 0)).out_BSHD.item<float>()));
  EXPECT_TRUE(std::isnan(merged(partial(1, 0), partial(1, NAN)).lse_BSH.item<float>()));
  EXPECT_TRUE(std::isnan(merged(partial(NAN, 0), partial(1, 0)).out_BSHD.item<float>()));
}

TEST(Merge, HandWorked) {  // weights 1 and 3 of 4
  const auto got = merged(partial(2, 0), partial(6, std::log(3.0f)));
  EXPECT_NEAR(got.out_BSHD.item<float>(), 5.0f, 1e-6);
  EXPECT_NEAR(got.lse_BSH.item<float>(), std::log(4.0f), 1e-6);
}

/// Mean absolute error against fp64 of a ring whose block outputs are bf16, and whose running result and
/// log-sum-exp are `dtype`.
double ring_error(int64_t ring, at::ScalarType dtype) {
  double sum = 0;
  constexpr uint64_t seeds = 8;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    auto x = family("randn", 1, 64, 64, 2, 2, 16, seed);
    x = {x.q.to(at::kBFloat16), x.k.to(at::kBFloat16), x.v.to(at::kBFloat16)};
    const auto ks = x.k.tensor_split(ring, 1), vs = x.v.tensor_split(ring, 1);
    const auto backend = make_attention_backend("kokkos_naive");
    const auto block = [&](int64_t i) {
      const auto rounded = backend->forward(x.q, ks[i], vs[i], std::nullopt);
      return Attended{rounded.out_BSHD.to(dtype), rounded.lse_BSH.to(dtype)};
    };
    Attended total = block(0);
    for (int64_t i = 1; i < ring; ++i) merge_partial(total, block(i));
    const auto right = attention_reference(x.q, x.k, x.v).out_BSHD;
    sum += (total.out_BSHD.to(at::kDouble) - right).abs().mean().item<double>();
  }
  return sum / seeds;
}

TEST(Merge, PrecisionOverTheRing) {  // D-05 (b); reported there: fp32 2.5e-4 flat, bf16 7.7e-4, 1.1e-3, 1.3e-3, 1.9e-3
  std::vector<double> wide, narrow;
  for (const int64_t ring : {2, 4, 8, 16}) {
    wide.push_back(ring_error(ring, at::kFloat));
    narrow.push_back(ring_error(ring, at::kBFloat16));
    RecordProperty(fmt::format("ring{}", ring), fmt::format("fp32 {:.2e} bf16 {:.2e}", wide.back(), narrow.back()));
    std::printf("ring %2ld: mean error %.2e with fp32 partials, %.2e with bf16\n", ring, wide.back(), narrow.back());
  }
  const auto [low, high] = std::minmax_element(wide.begin(), wide.end());
  EXPECT_LE(*high, 1.3 * *low);
  EXPECT_TRUE(std::is_sorted(narrow.begin(), narrow.end()));
  EXPECT_GE(narrow.back(), 4 * wide.back());
}

TEST(Merge, KeepsEachDtype) {
  const auto lse = normal({2, 3, 2}, "lse"), other_lse = normal({2, 3, 2}, "other_lse");
  const auto out = normal({2, 3, 2, 5}, "out"), other = normal({2, 3, 2, 5}, "other");
  for (const auto mine : dtypes())
    for (const auto theirs : dtypes()) {
      const auto got = merged({out.to(mine), lse.to(at::kFloat)}, {other.to(theirs), other_lse.to(at::kFloat)});
      const auto a = at::exp(lse.to(at::kFloat).to(at::kDouble)).unsqueeze(-1),
                 b = at::exp(other_lse.to(at::kFloat).to(at::kDouble)).unsqueeze(-1);
      const auto right = (a * out.to(mine).to(at::kDouble) + b * other.to(theirs).to(at::kDouble)) / (a + b);
      EXPECT_EQ(got.out_BSHD.scalar_type(), mine);
      EXPECT_EQ(got.lse_BSH.scalar_type(), at::kFloat);
      EXPECT_LE(relative_l2(got.out_BSHD, right), std::max(1e-6, rounding_bound(mine) / 4));
    }
  const auto narrow = merged({out, lse.to(at::kBFloat16)}, {other, other_lse.to(at::kBFloat16)}).lse_BSH;
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_l2(narrow, at::logaddexp(lse, other_lse)), 2 * dtype_eps(at::kBFloat16));
}

TEST(Merge, AnyStrides) {
  const auto lse = normal({2, 2, 3}, "lse").transpose(1, 2), out = normal({2, 2, 3, 5}, "out").transpose(1, 2);
  const auto plain = merged({out.contiguous(), lse.contiguous()}, {out.contiguous() + 1, lse.contiguous() * 2});
  Attended into{out, lse};
  merge_partial(into, {spread(out + 1), spread(lse * 2)});
  EXPECT_TRUE(at::equal(into.out_BSHD, plain.out_BSHD) && at::equal(into.lse_BSH, plain.lse_BSH));
}

TEST(Merge, RefusesWhatDoesNotFit) {
  const Attended good{at::zeros({1, 2, 3, 4}), at::zeros({1, 2, 3})};
  const auto refused = [&](Attended into, const Attended& other) { return refusal([&] { merge_partial(into, other); }); };
  EXPECT_THAT(refused(good, {at::zeros({1, 2, 3, 5}), good.lse_BSH}),
              HasSubstr("[merge] other's out is [1, 2, 3, 5]; [1, 2, 3, 4]"));
  EXPECT_THAT(refused(good, {good.out_BSHD, at::zeros({1, 3, 2})}), HasSubstr("other's lse is [1, 3, 2]; [1, 2, 3]"));
  EXPECT_THAT(refused(good, {good.out_BSHD, at::zeros({1, 2, 3}, at::kDouble)}), HasSubstr("other's lse is fp64; fp32"));
  EXPECT_THAT(refused({good.out_BSHD, at::zeros({1, 2, 3, 1})}, good), HasSubstr("into's lse is [1, 2, 3, 1]"));
  EXPECT_THAT(refused({good.out_BSHD[0], good.lse_BSH}, good), HasSubstr("into's out is [2, 3, 4]; [B, S, H, D]"));
  EXPECT_THAT(refused({}, good), HasSubstr("into's out is undefined"));
}

}  // namespace
}  // namespace shardproof::test
