#include "core/random.hpp"
#include "strategies/token_split.hpp"

#include "tests/strategies/attention_ranks.hpp"
#include "tests/support/expect_error.hpp"

#include <cmath>

namespace shardproof {
namespace {

using test::attend;

struct Mode {
  const char* strategy;
  std::vector<std::pair<Axis, int>> degrees;
  MeshShape mesh() const { return MeshShape(degrees); }
};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.strategy << "[" << mode.mesh().text() << "]"; }

std::string name_of(const testing::TestParamInfo<Mode>& info) {
  std::string name = info.param.strategy;
  for (const auto& [axis, degree] : info.param.degrees) name += fmt::format("_{}{}", axis_name(axis), degree);
  return name;
}

/// Every context-parallel strategy on a mesh of two and of four ranks.
class ContextParallel : public testing::TestWithParam<Mode> {
 protected:
  Tensor run(const Tensor& q, const Tensor& k, const Tensor& v, int64_t text = 0, const std::optional<Tensor>& mask = std::nullopt,
             const std::string& backend = "kokkos_flash") {
    return attend(GetParam().strategy, GetParam().mesh(), q, k, v, text, text, mask, backend).out_BSHD;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, ContextParallel,
                         testing::Values(Mode{"ring", {{Axis::ring, 2}}}, Mode{"ring", {{Axis::ring, 4}}}, Mode{"ring_unconverted", {{Axis::ring, 2}}},
                                         Mode{"ring_p2p", {{Axis::ring, 2}}}, Mode{"ring_p2p", {{Axis::ring, 4}}},
                                         Mode{"ring_anything", {{Axis::ring, 2}}}, Mode{"ring_anything", {{Axis::ring, 4}}},
                                         Mode{"ulysses", {{Axis::ulysses, 2}}}, Mode{"ulysses", {{Axis::ulysses, 4}}},
                                         Mode{"ulysses_anything", {{Axis::ulysses, 2}}}, Mode{"ulysses_anything", {{Axis::ulysses, 4}}},
                                         Mode{"unified", {{Axis::ring, 2}, {Axis::ulysses, 2}}}, Mode{"unified_anything", {{Axis::ring, 2}, {Axis::ulysses, 2}}},
                                         Mode{"unified", {{Axis::ring, 1}, {Axis::ulysses, 2}}}, Mode{"unified_anything", {{Axis::ring, 2}, {Axis::ulysses, 1}}}),
                         name_of);

/// Values as [1, T, heads, 1], the same for every head; with q = 0 attention is their plain mean.
Tensor values(const std::vector<double>& v, int64_t heads = 4) {
  const auto tokens = static_cast<int64_t>(v.size());
  return at::tensor(v, at::kDouble).view({1, tokens, 1, 1}).expand({1, tokens, heads, 1}).contiguous();
}

// diffusers#12443: with hooks but no context-parallel attention each rank saw its own tokens, [0.5, 0.5, 2.5, 2.5].
TEST_P(ContextParallel, EveryQuerySeesEveryKey) {
  const Tensor v = values({0, 1, 2, 3});
  EXPECT_TRUE(at::allclose(run(at::zeros_like(v), at::zeros_like(v), v), at::full_like(v, 1.5), 1e-14, 0));
}

// diffusers#13756: after the all-to-all tokens lie as text_0, image_0, text_1, …; a mask left as text, image gave 187/6.
TEST_P(ContextParallel, TheMaskFollowsTheTokens) {
  const Tensor v = values({10, 20, 30, 40, 50, 60, 70, 80, 1, 2, 3, 4}), zero = at::zeros_like(v);
  const Tensor mask = at::tensor(std::vector<int64_t>{1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, at::kLong).to(at::kBool).view({1, 12});
  const Tensor right = at::full_like(v, 40.0 / 6);
  EXPECT_TRUE(at::allclose(run(zero, zero, v, 8, mask), right, 1e-14, 0));
  EXPECT_TRUE(at::allclose(run(zero, zero, v, 8, mask.view({1, 1, 1, 12})), right, 1e-14, 0));
  // Two items with masks of their own: 40/6 and (10 + 20 + 30 + 1 + … + 4)/7.
  Tensor two = mask.repeat({2, 1});
  two[1][2] = true;
  const Tensor out = run(zero.repeat({2, 1, 1, 1}), zero.repeat({2, 1, 1, 1}), v.repeat({2, 1, 1, 1}), 8, two);
  EXPECT_TRUE(at::allclose(out[0], right[0], 1e-14, 0));
  EXPECT_TRUE(at::allclose(out[1], at::full_like(right[0], 70.0 / 7), 1e-14, 0));
}

// EasyContext#14, third case: a chunk without any key to attend to must not win, nor turn the rest into NaN.
TEST_P(ContextParallel, AChunkThatIsMaskedWholeCountsForNothing) {
  const Tensor v = values({5, 6, 7, 8, 1, 2, 3, 6}), zero = at::zeros_like(v);
  for (const bool first : {true, false}) {
    Tensor mask = at::ones({1, 8}, at::kBool);
    mask.slice(1, first ? 0 : 4, first ? 4 : 8).fill_(false);
    EXPECT_TRUE(at::allclose(run(zero, zero, v, 0, mask), at::full_like(v, first ? 3.0 : 6.5), 1e-14, 0)) << first;
  }
}

TEST_P(ContextParallel, AgreesWithOneDeviceOnEveryBackend) {
  for (const int64_t batch : {1, 2})
    for (const auto* backend : {"kokkos_naive", "kokkos_flash", "aten_flash", "aten_math"}) {
      const auto x = [&](const char* which) { return seeded_normal({batch, 12, 12, 5}, 7, which); };  // H == S: layouts cannot hide
      const Tensor one = make_attention_backend("kokkos_naive")->forward(x("q"), x("k"), x("v"), std::nullopt).out_BSHD;
      EXPECT_LE(((run(x("q"), x("k"), x("v"), 4, std::nullopt, backend) - one).norm() / one.norm()).item<double>(), 1e-14) << backend;
    }
}

TEST_P(ContextParallel, FewerKeyValueHeads) {
  const Tensor q = seeded_normal({2, 8, 16, 3}, 1, "q"), k = seeded_normal({2, 8, 8, 3}, 1, "k"), v = seeded_normal({2, 8, 8, 3}, 1, "v");
  const Tensor one = make_attention_backend("kokkos_naive")->forward(q, k, v, std::nullopt).out_BSHD;
  EXPECT_LE(((run(q, k, v) - one).norm() / one.norm()).item<double>(), 1e-14);
}

TEST_P(ContextParallel, KeysMayBeMoreOrFewerThanQueries) {
  for (const int64_t keys : {4, 12, 20}) {
    const Tensor q = seeded_normal({2, 8, 4, 3}, 1, "q"), k = seeded_normal({2, keys, 4, 3}, 1, "k"), v = seeded_normal({2, keys, 4, 3}, 1, "v");
    const Tensor one = make_attention_backend("kokkos_naive")->forward(q, k, v, std::nullopt).out_BSHD;
    const Tensor out = attend(GetParam().strategy, GetParam().mesh(), q, k, v, 4, 0).out_BSHD;
    EXPECT_LE(((out - one).norm() / one.norm()).item<double>(), 1e-14) << keys;
  }
}

/// Lengths and head counts that do not divide, in the strategies that take any.
class Anything : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Anything,
                         testing::Values(Mode{"ring_anything", {{Axis::ring, 2}}}, Mode{"ring_anything", {{Axis::ring, 4}}}, Mode{"ulysses_anything", {{Axis::ulysses, 2}}},
                                         Mode{"unified_anything", {{Axis::ring, 1}, {Axis::ulysses, 2}}},
                                         Mode{"ulysses_anything", {{Axis::ulysses, 4}}}, Mode{"ulysses_anything", {{Axis::ulysses, 16}}},
                                         Mode{"unified_anything", {{Axis::ring, 2}, {Axis::ulysses, 2}}},
                                         Mode{"unified_anything", {{Axis::ring, 3}, {Axis::ulysses, 4}}}),
                         name_of);

// sglang#33327: text counted once per ring rank gave 4 in place of 12/5. A token belongs to one rank here.
TEST_P(Anything, ATextTokenCountsOnce) {
  for (const bool front : {true, false}) {
    const Tensor v = values(front ? std::vector<double>{12, 0, 0, 0, 0} : std::vector<double>{0, 0, 0, 0, 12}), zero = at::zeros_like(v);
    EXPECT_TRUE(at::allclose(attend(GetParam().strategy, GetParam().mesh(), zero, zero, v, front ? 1 : 4, front ? 1 : 4).out_BSHD, at::full_like(v, 2.4), 1e-14, 0));
  }
}

// diffusers#12996; 3 heads on 2 and 4 ranks, and the guide's 30 heads on 16, where diffusers' padding fails.
TEST_P(Anything, TakesAnyLengthAndHeadCount) {
  for (const int64_t heads : {1, 3, 4, 30}) {
    const auto x = [&](const char* which) { return seeded_normal({2, 19, heads, 2}, 5, which); };
    const Tensor one = make_attention_backend("kokkos_naive")->forward(x("q"), x("k"), x("v"), std::nullopt).out_BSHD;
    const Tensor out = attend(GetParam().strategy, GetParam().mesh(), x("q"), x("k"), x("v"), 2, 2).out_BSHD;
    EXPECT_LE(((out - one).norm() / one.norm()).item<double>(), 1e-14) << heads;
  }
}

// LlamaFactory#10794: 2 key/value heads on 4 ranks passed the check and left ranks with nothing. Here they are repeated.
TEST_P(Anything, KeyValueHeadsThatCannotBeDealtOutAreRepeated) {
  for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{4, 2}, {6, 3}, {12, 4}, {9, 3}}) {
    const Tensor q = seeded_normal({1, 17, heads, 3}, 1, "q"), k = seeded_normal({1, 17, kv_heads, 3}, 1, "k"),
                 v = seeded_normal({1, 17, kv_heads, 3}, 1, "v");
    const Tensor one = make_attention_backend("kokkos_naive")->forward(q, k, v, std::nullopt).out_BSHD;
    const Tensor out = attend(GetParam().strategy, GetParam().mesh(), q, k, v).out_BSHD;
    EXPECT_LE(((out - one).norm() / one.norm()).item<double>(), 1e-14) << heads << " " << kv_heads;
  }
}

// The cut of the sum is not the sum of the cuts: 14 tokens over 4 ranks are [4, 4, 3, 3], text 5 and image 9 are [5, 3, 3, 3].
TEST(TokenSplit, TextAndImageAreCutApart) {
  const Request request{.batch = 1, .image_tokens = 9, .text_tokens = 5};
  for (const Axis axis : {Axis::ulysses, Axis::ring})
    EXPECT_EQ(group_tokens(request, MeshShape({{axis, 4}}), 0, axis), (std::vector<int64_t>{5, 3, 3, 3}));
  const MeshShape mesh({{Axis::ring, 2}, {Axis::ulysses, 2}});  // text [3, 2] → [2, 1, 1, 1], image [5, 4] → [3, 2, 2, 2]
  EXPECT_EQ(group_tokens(request, mesh, 0, Axis::ulysses), (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(group_tokens(request, mesh, 3, Axis::ulysses), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(group_tokens(request, mesh, 1, Axis::ring), (std::vector<int64_t>{8, 6}));
  EXPECT_EQ(local_tokens(request, mesh, 1), 3);
}

TEST(TokenSplit, HeadsAreDealtOutWhole) {
  EXPECT_EQ(head_shares(30, 30, 16).q, (std::vector<int64_t>{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(head_shares(8, 4, 2).kv, (std::vector<int64_t>{2, 2}));
  EXPECT_FALSE(head_shares(8, 4, 2).repeat);
  EXPECT_TRUE(head_shares(4, 2, 4).repeat);
  EXPECT_EQ(head_shares(4, 2, 4).kv, (std::vector<int64_t>{1, 1, 1, 1}));
}

// EasyContext#14: one key a rank, q = 1, v = [1, 3]; the naive update overflows from a difference of 89 on and gives 0.
TEST(RingAttention, SurvivesLogitsFarApart) {
  const auto value = [](std::vector<float> x) { return at::tensor(x, at::kFloat).view({1, -1, 1, 1}); };
  for (const char* name : {"ring", "ring_p2p", "ring_anything", "ring_unconverted"})
    for (const float far : {89.0f, 100.0f})
      for (const bool swapped : {false, true}) {
        const Tensor k = value({0, far}), v = value({1, 3});
        const Tensor out = attend(name, MeshShape({{Axis::ring, 2}}), value({1, 1}), swapped ? k.flip(1) : k, swapped ? v.flip(1) : v).out_BSHD;
        EXPECT_TRUE(at::equal(out, at::full({1, 2, 1, 1}, 3.0f, at::kFloat))) << name << out;
      }
}

TEST(RingAttention, ReturnsTheLogSumExpOfAllKeys) {
  run_local(2, [&](Communicator& world) {
    const Mesh mesh(MeshShape({{Axis::ring, 2}}), world);
    KeyValueMeter meter;
    const auto attention = find_strategy("ring_p2p").attention(mesh, make_attention_backend("kokkos_flash"), meter);
    const Tensor one = at::ones({1, 1, 1, 1}), k = one * (world.rank() == 0 ? 0 : 100);
    EXPECT_EQ(attention->forward(one, k, one, std::nullopt).lse_BSH.item<float>(), 100.0f);
  });
}

/// The same chunks in the same order: the two forms of the ring agree to the bit, and differ in what they hold.
TEST(RingAttention, BothFormsAgreeAndHoldWhatTheySay) {
  const auto x = [&](const char* which) { return seeded_normal({2, 24, 3, 8}, 3, which).to(at::kBFloat16); };
  const MeshShape mesh({{Axis::ring, 4}});
  const auto gathered = attend("ring", mesh, x("q"), x("k"), x("v")), sent = attend("ring_p2p", mesh, x("q"), x("k"), x("v"));
  EXPECT_TRUE(at::equal(gathered.out_BSHD, sent.out_BSHD));
  constexpr int64_t chunk = 2 * 2 * 6 * 3 * 8 * 2;  // K and V, B, T/N, H, D, bytes
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gathered.peak_key_value_bytes[rank], 5 * chunk);  // what it sends, and all four
    EXPECT_EQ(sent.peak_key_value_bytes[rank], 2 * chunk);      // the one at hand and the one that arrives
  }
}

TEST(UlyssesAttention, IsBitEqualToOneDeviceWithTheSameKernel) {  // the same keys in the same order
  for (const char* name : {"ulysses", "ulysses_anything"})
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
      for (const auto* backend : {"kokkos_naive", "kokkos_flash"}) {
        const auto x = [&](const char* which) { return seeded_normal({1, 24, 6, 8}, 3, which).to(dtype); };
        const Tensor one = make_attention_backend(backend)->forward(x("q"), x("k"), x("v"), std::nullopt).out_BSHD;
        EXPECT_TRUE(at::equal(attend(name, MeshShape({{Axis::ulysses, 3}}), x("q"), x("k"), x("v"), 0, 0, std::nullopt, backend).out_BSHD, one))
            << name << dtype;
      }
}

}  // namespace
}  // namespace shardproof
