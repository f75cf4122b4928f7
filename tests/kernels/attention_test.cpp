#include "kernels/attention_backend.hpp"
#include "tests/kernels/compare.hpp"

namespace shardproof::test {
namespace {

using testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Both results, where the reference has seen a key; elsewhere exactly 0 and -inf.
void expect_attended(const Attended& got, const Attended& right, double bound, const std::string& what) {
  const auto seen = right.lse_BSH.isfinite(), unseen = seen.logical_not();
  ASSERT_EQ(got.lse_BSH.sizes(), right.lse_BSH.sizes()) << what;
  EXPECT_LE(relative_l2(got.out_BSHD, right.out_BSHD), bound) << what;
  // An lse can be near zero everywhere, so its error is taken against one more than itself.
  EXPECT_LE(relative_l2(got.lse_BSH.masked_select(seen) + 1, right.lse_BSH.masked_select(seen) + 1), bound) << what;
  EXPECT_TRUE((got.lse_BSH.masked_select(unseen) == -infinity).all().item<bool>()) << what;
  EXPECT_TRUE((got.out_BSHD.masked_select(unseen.unsqueeze(-1)) == 0).all().item<bool>()) << what;
}

struct Shape {
  int64_t B, S, T, H, KV, D;
};

class Attention : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<AttentionBackend> backend = make_attention_backend(GetParam());
};

TEST_P(Attention, EqualsTheFormulaInFp64) {
  for (const Shape n : {Shape{1, 1, 1, 1, 1, 1},
                        {2, 5, 9, 2, 2, 3},
                        {1, 97, 65, 2, 2, 20},
                        {2, 130, 193, 1, 1, 64},
                        {1, 7, 64, 4, 4, 17},
                        {1, 100, 1, 1, 1, 8}})
    for (const auto& name : families()) {
      const auto x = family(name, n.B, n.S, n.T, n.H, n.KV, n.D);
      const auto text = fmt::format("{} S{} T{} D{}", name, n.S, n.T, n.D);
      expect_attended(backend->forward(x.q, x.k, x.v, std::nullopt), attention_reference(x.q, x.k, x.v), gate, text);
    }
}

TEST_P(Attention, FewerKeyValueHeads) {
  for (const int64_t kv : {1, 2, 3, 6}) {
    const auto x = family("structured", 2, 11, 70, 6, kv, 12);
    expect_attended(backend->forward(x.q, x.k, x.v, std::nullopt), attention_reference(x.q, x.k, x.v), gate,
                    fmt::format("{} kv heads", kv));
  }
}

TEST_P(Attention, KeyMask) {
  const auto x = family("negative_logits", 3, 9, 75, 2, 2, 12);
  auto mask = normal({3, 75}, "mask") > 0;
  mask[1].fill_(false);                  // sees nothing
  mask[2].slice(0, 0, 70).fill_(false);  // whole tiles masked before the first key seen
  const auto right = attention_reference(x.q, x.k, x.v, mask);
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto q = x.q.to(dtype), k = x.k.to(dtype), v = x.v.to(dtype);
    const double bound = dtype == at::kDouble ? gate : 2e-6;
    expect_attended(backend->forward(q, k, v, mask), right, bound, "[B, T]");
    expect_attended(backend->forward(q, k, v, mask.view({3, 1, 1, 75})), right, bound, "[B, 1, 1, T]");
    expect_attended(backend->forward(q, k, v, mask.t().contiguous().t()), right, bound, "strides");
  }
}

TEST_P(Attention, NoKeysAtAll) {
  const auto x = family("randn", 2, 3, 0, 2, 2, 4);
  expect_attended(backend->forward(x.q, x.k, x.v, std::nullopt), attention_reference(x.q, x.k, x.v), gate, "T = 0");
}

TEST_P(Attention, ZeroQueriesGiveTheMeanOfUnmaskedValues) {
  const auto v = at::tensor({10., 20., 30., 40.}, at::kDouble).view({1, 4, 1, 1}), zero = at::zeros_like(v);
  const auto mask = at::tensor({1, 1, 0, 1}).to(at::kBool).view({1, 4});
  const auto got = backend->forward(zero, zero, v, mask);
  EXPECT_TRUE(passes(got.out_BSHD, at::full({1, 4, 1, 1}, 70.0 / 3, at::kDouble)));
  EXPECT_TRUE(passes(got.lse_BSH, at::full({1, 4, 1}, std::log(3.0), at::kDouble)));
}

TEST_P(Attention, LargeLogitsDoNotOverflow) {
  const auto x = family("structured", 1, 6, 80, 1, 1, 16);
  expect_attended(backend->forward(x.q * 300, x.k * 10, x.v, std::nullopt), attention_reference(x.q * 300, x.k * 10, x.v), gate,
                  "fp64");
  const auto q = (x.q * 300).to(at::kFloat), k = (x.k * 10).to(at::kFloat), v = x.v.to(at::kFloat);
  EXPECT_LE(relative_l2(backend->forward(q, k, v, std::nullopt).out_BSHD, attention_reference(q, k, v).out_BSHD), 1e-3);
}

TEST_P(Attention, OtherDtypes) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& name : families()) {
      const auto x = family(name, 2, 67, 131, 2, 2, 40);
      const auto q = x.q.to(dtype), k = x.k.to(dtype), v = x.v.to(dtype);
      const auto got = backend->forward(q, k, v, std::nullopt);
      const auto right = attention_reference(q, k, v);
      EXPECT_EQ(got.out_BSHD.scalar_type(), dtype);
      EXPECT_EQ(got.lse_BSH.scalar_type(), at::kFloat);
      EXPECT_LE(relative_l2(got.out_BSHD, right.out_BSHD), rounding_bound(dtype)) << name << dtype_name(dtype);
      EXPECT_LE(relative_l2(got.lse_BSH, right.lse_BSH), 1e-5) << name << dtype_name(dtype);
    }
}

TEST_P(Attention, KeepsTheAccumulatorsPrecision) {
  for (const auto dtype : dtypes()) {
    const auto x = family("structured", 1, 33, 70, 2, 2, 24);
    const auto q = x.q.to(dtype), k = x.k.to(dtype), v = x.v.to(dtype);
    const auto wide = backend->forward(q, k, v, std::nullopt, true), rounded = backend->forward(q, k, v, std::nullopt);
    const bool widened = GetParam() == "aten_flash";  // LibTorch returns rounded results only
    EXPECT_EQ(wide.out_BSHD.scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
    // One rounding apart, or two where a rounded result may be made from rounded weights.
    EXPECT_LE(relative_l2(rounded.out_BSHD, wide.out_BSHD), dtype == at::kDouble ? 0 : dtype_eps(dtype)) << dtype_name(dtype);
    const double bound = dtype == at::kDouble ? gate : widened ? rounding_bound(dtype) : 2e-6;
    EXPECT_LE(relative_l2(wide.out_BSHD, attention_reference(q, k, v).out_BSHD), bound) << dtype_name(dtype);
  }
}

TEST_P(Attention, AnyStrides) {
  const auto x = family("structured", 2, 10, 14, 4, 4, 6);
  const auto right = attention_reference(x.q, x.k, x.v);
  const auto by_head = [](const Tensor& t) { return t.transpose(1, 2).contiguous().transpose(1, 2); };
  expect_attended(backend->forward(by_head(x.q), by_head(x.k), by_head(x.v), std::nullopt), right, gate, "[B, H, S, D] memory");
  expect_attended(backend->forward(spread(x.q), spread(x.k), spread(x.v), std::nullopt), right, gate, "spread");
  const auto packed = at::cat({x.k, x.v}, 3);  // k and v as halves of one tensor
  expect_attended(backend->forward(x.q, packed.slice(3, 0, 6), packed.slice(3, 6, 12), std::nullopt), right, gate, "packed");
  expect_attended(backend->forward(x.q, x.k.slice(1, 0, 1).expand({2, 14, 4, 6}), x.v, std::nullopt),
                  attention_reference(x.q, x.k.slice(1, 0, 1).expand({2, 14, 4, 6}), x.v), gate, "expanded");
}

TEST_P(Attention, BitEqualRunToRunAndOverFewerHeads) {
  const auto x = family("randn", 1, 50, 90, 4, 4, 16);
  const auto q = x.q.to(at::kFloat), k = x.k.to(at::kFloat), v = x.v.to(at::kFloat);
  const auto all = backend->forward(q, k, v, std::nullopt);
  EXPECT_TRUE(at::equal(backend->forward(q, k, v, std::nullopt).out_BSHD, all.out_BSHD));
  if (GetParam() == "aten_math") return;  // a batched GEMM
  const auto some = backend->forward(q.slice(2, 1, 3), k.slice(2, 1, 3), v.slice(2, 1, 3), std::nullopt);
  EXPECT_TRUE(at::equal(some.out_BSHD, all.out_BSHD.slice(2, 1, 3)));
}

TEST_P(Attention, RefusesWhatDoesNotFit) {
  const auto x = family("randn", 2, 3, 5, 4, 4, 6);
  const auto refused = [&](const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask = std::nullopt) {
    return refusal([&] { backend->forward(q, k, v, mask); });
  };
  EXPECT_THAT(refused(x.q[0], x.k, x.v), HasSubstr(fmt::format("[{}] q is [3, 4, 6]", GetParam())));
  EXPECT_THAT(refused(x.q, x.k.slice(3, 0, 5), x.v), HasSubstr("k is [2, 5, 4, 5]; [2, T, K, 6]"));
  EXPECT_THAT(refused(x.q, x.k, x.v.slice(1, 0, 4)), HasSubstr("v is [2, 4, 4, 6]; [2, 5, 4, 6]"));
  EXPECT_THAT(refused(x.q, x.k.to(at::kFloat), x.v), HasSubstr("k is fp32; fp64"));
  EXPECT_THAT(refused(x.q, x.k.slice(2, 0, 3), x.v.slice(2, 0, 3)), HasSubstr("4 query heads are not divisible by 3"));
  EXPECT_THAT(refused(x.q, x.k, x.v, at::ones({2, 5})), HasSubstr("the key mask is fp32; bool"));
  EXPECT_THAT(refused(x.q, x.k, x.v, at::ones({2, 3}, at::kBool)),
              HasSubstr("the key mask is [2, 3]; accepted: [2, 5] or [2, 1, 1, 5]"));
  EXPECT_THAT(refused(x.q, x.k, x.v, at::ones({5}, at::kBool)), HasSubstr("[5]"));
}

/// The backends whose tensors live where these tests run.
std::vector<std::string> cpu_backends() {
  auto names = attention_backend_names();
  std::erase_if(names, [](const auto& name) { return make_attention_backend(name)->traits().device != "cpu"; });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, Attention, testing::ValuesIn(cpu_backends()), [](const auto& info) { return info.param; });

TEST(AttentionKokkos, NothingAMaskedKeyHoldsReachesTheResult) {
  auto x = family("randn", 1, 4, 70, 1, 1, 8);
  const auto mask = (at::arange(70) < 66).view({1, 70});
  const auto right = attention_reference(x.q, x.k, x.v, mask);
  x.k.slice(1, 66).fill_(NAN);
  x.v.slice(1, 66).fill_(NAN);
  for (const auto* name : {"kokkos_naive", "kokkos_flash"})
    expect_attended(make_attention_backend(name)->forward(x.q, x.k, x.v, mask), right, gate, name);
}

TEST(AttentionBackends, ByName) {
  EXPECT_THAT(attention_backend_names(),
              testing::ElementsAre("kokkos_naive", "kokkos_flash", "aten_flash", "aten_math", "aten_efficient", "aten_cudnn"));
  EXPECT_THAT(cpu_backends(), testing::ElementsAre("kokkos_naive", "kokkos_flash", "aten_flash", "aten_math"));
  for (const auto& name : attention_backend_names()) EXPECT_EQ(make_attention_backend(name)->name(), name);
  EXPECT_EQ(make_attention_backend("_native_math")->name(), "aten_math");
  EXPECT_THAT(refusal([] { make_attention_backend("fast"); }),
              HasSubstr("[attention] unknown backend \"fast\"; accepted: kokkos_naive, kokkos_flash, aten_flash, aten_math"));
  EXPECT_THAT(refusal([] { make_attention_backend("flash"); }), HasSubstr("\"flash\" needs a package that is not part of"));
  const auto traits = make_attention_backend("kokkos_flash")->traits();
  EXPECT_TRUE(traits.lse && traits.mask && traits.gqa);
}

}  // namespace
}  // namespace shardproof::test
