#include "comm/local.hpp"
#include "core/random.hpp"
#include "strategies/registry.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

/// Attention of a strategy over tokens cut evenly over N ranks; the outputs joined along the tokens.
Tensor attend(const char* name, Axis axis, int ranks, const Tensor& q, const Tensor& k, const Tensor& v, const char* backend = "kokkos_flash") {
  std::vector<Tensor> parts(ranks);
  run_local(ranks, [&](Communicator& world) {
    const Mesh mesh(MeshShape({{axis, ranks}}), world);
    const auto attention = find_strategy(name).attention(mesh, make_attention_backend(backend));
    const auto mine = [&](const Tensor& x) { return x.chunk(ranks, 1)[world.rank()]; };
    parts[world.rank()] = attention->forward(mine(q), mine(k), mine(v), std::nullopt).out_BSHD;
  });
  return at::cat(parts, 1);
}

struct Mode {
  const char* name;
  Axis axis;
};
class ContextParallel : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, ContextParallel, testing::Values(Mode{"ring", Axis::ring}, Mode{"ulysses", Axis::ulysses}),
                         [](const auto& info) { return std::string(info.param.name); });

// diffusers#12443: with hooks but no context-parallel attention each rank saw its own tokens, [0.5, 0.5, 2.5, 2.5].
TEST_P(ContextParallel, EveryQuerySeesEveryKey) {
  const int64_t heads = GetParam().axis == Axis::ulysses ? 2 : 1;
  const Tensor zero = at::zeros({1, 4, heads, 1}, at::kDouble);
  const Tensor v = at::arange(4, at::kDouble).view({1, 4, 1, 1}).expand({1, 4, heads, 1});
  EXPECT_TRUE(at::equal(attend(GetParam().name, GetParam().axis, 2, zero, zero, v), at::full({1, 4, heads, 1}, 1.5, at::kDouble)));
}

TEST_P(ContextParallel, AgreesWithOneDeviceOnEveryMeshAndBackend) {
  for (const int64_t batch : {1, 2})
    for (const int ranks : {1, 2, 3, 4, 6})
      for (const auto* backend : {"kokkos_naive", "kokkos_flash", "aten_flash", "aten_math"}) {
        const auto x = [&](const char* which) { return seeded_normal({batch, 12, 12, 5}, 7, which); };  // H == S: layouts cannot hide
        const Tensor one = make_attention_backend("kokkos_naive")->forward(x("q"), x("k"), x("v"), std::nullopt).out_BSHD;
        const Tensor out = attend(GetParam().name, GetParam().axis, ranks, x("q"), x("k"), x("v"), backend);
        EXPECT_LE(((out - one).norm() / one.norm()).item<double>(), 1e-14) << ranks << " " << backend;
      }
}

TEST_P(ContextParallel, FewerKeyValueHeads) {
  const Tensor q = seeded_normal({2, 8, 4, 3}, 1, "q"), k = seeded_normal({2, 8, 2, 3}, 1, "k"), v = seeded_normal({2, 8, 2, 3}, 1, "v");
  const Tensor one = make_attention_backend("kokkos_naive")->forward(q, k, v, std::nullopt).out_BSHD;
  const Tensor out = attend(GetParam().name, GetParam().axis, 2, q, k, v);
  EXPECT_LE(((out - one).norm() / one.norm()).item<double>(), 1e-14);
}

TEST_P(ContextParallel, AMaskIsRefusedByName) {
  test::expect_error(Fault::input, {GetParam().name, "mask"}, [&] {
    run_local(2, [&](Communicator& world) {
      const Mesh mesh(MeshShape({{GetParam().axis, 2}}), world);
      const auto attention = find_strategy(GetParam().name).attention(mesh, make_attention_backend("kokkos_flash"));
      const Tensor x = at::zeros({1, 2, 2, 2}, at::kDouble);
      attention->forward(x, x, x, at::ones({1, 2}, at::kBool));
    });
  });
}

// EasyContext#14: one key a rank, q = 1, k = [0, 100], v = [1, 3]; the naive update overflows and gives 0.
TEST(RingAttention, SurvivesLogitsFarApart) {
  const auto value = [](std::vector<float> x) { return at::tensor(x, at::kFloat).view({1, -1, 1, 1}); };
  for (const bool swapped : {false, true}) {
    const Tensor k = value({0, 100}), v = value({1, 3});
    const Tensor out = attend("ring", Axis::ring, 2, value({1, 1}), swapped ? k.flip(1) : k, swapped ? v.flip(1) : v);
    EXPECT_TRUE(at::equal(out, at::full({1, 2, 1, 1}, 3.0f, at::kFloat))) << out;
  }
}

TEST(UlyssesAttention, IsBitEqualToOneDeviceWithTheSameKernel) {  // the same keys in the same order
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto x = [&](const char* which) { return seeded_normal({1, 24, 6, 8}, 3, which).to(dtype); };
    const Tensor one = make_attention_backend("kokkos_flash")->forward(x("q"), x("k"), x("v"), std::nullopt).out_BSHD;
    EXPECT_TRUE(at::equal(attend("ulysses", Axis::ulysses, 3, x("q"), x("k"), x("v")), one)) << dtype;
  }
}

}  // namespace
}  // namespace shardproof
