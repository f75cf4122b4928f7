// Each kernel with a fault that someone has shipped, or could: the comparison of these tests must reject it, on
// inputs on which the kernel itself passes.

#include "kernels/activations.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/merge.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/timestep_embedding.hpp"
#include "tests/kernels/compare.hpp"

#include <functional>
#include <numbers>

namespace shardproof::test {
namespace {

/// What a kernel returns, and what broken ones would.
struct Broken {
  const char* fault;
  Tensor result;
};

void expect_rejected(const Tensor& kernel, const Tensor& reference, const std::vector<Broken>& variants) {
  EXPECT_TRUE(passes(kernel, reference)) << "the kernel itself: " << relative_l2(kernel, reference);
  for (const auto& variant : variants) EXPECT_FALSE(passes(variant.result, reference)) << variant.fault;
}

TEST(BrokenVariants, LayerNorm) {
  const double eps = 1e-6;
  const auto x = normal({2, 5, 12}, "x") + 0.5, mean = x.mean(-1, true), centred = x - mean;
  const auto variance = (centred * centred).mean(-1, true), right = centred / at::sqrt(variance + eps);
  expect_rejected(layer_norm(x, eps), right,
                  {{"eps 1e-5", centred / at::sqrt(variance + 1e-5)},
                   {"eps outside the root", centred / (at::sqrt(variance) + eps)},
                   {"mean not subtracted", x / at::sqrt(variance + eps)},
                   {"root mean square for the deviation", centred / at::sqrt((x * x).mean(-1, true) + eps)},
                   {"unbiased variance", centred / at::sqrt(variance * 12 / 11 + eps)},
                   {"over the wrong dim", (x - x.mean(1, true)) / at::sqrt(x.var(1, false, true) + eps)}});
}

TEST(BrokenVariants, RmsNorm) {
  const double eps = 1e-6;
  const auto x = normal({2, 3, 4, 6}, "x"), w = normal({6}, "w");
  const auto scale = [&](const Tensor& squares) { return x / at::sqrt(squares + eps) * w; };
  const auto mean = (x * x).mean(-1, true);
  expect_rejected(rms_norm(x, w, eps), scale(mean),
                  {{"eps 1e-5", x / at::sqrt(mean + 1e-5) * w},
                   {"eps left out", x / at::sqrt(mean) * w},
                   {"over all heads", scale((x * x).mean({-2, -1}, true))},
                   {"over half the width", scale((x * x).slice(-1, 0, 3).mean(-1, true))},
                   {"sum for mean", scale((x * x).sum(-1, true))},
                   {"weight left out", x / at::sqrt(mean + eps)},
                   {"1 + weight", x / at::sqrt(mean + eps) * (1 + w)},
                   {"mean subtracted", (x - x.mean(-1, true)) / at::sqrt(mean + eps) * w}});
}

TEST(BrokenVariants, Rope) {
  const auto x = normal({1, 6, 2, 8}, "x"), ids = at::stack({at::arange(6), at::arange(6) * 2}, 1).to(at::kDouble) + 1;
  const std::vector<int64_t> axes{4, 4};
  const auto table = rope_table(ids, axes, 10000, at::kDouble);
  const auto cos = table.cos_SD.view({1, 6, 1, 8}), sin = table.sin_SD.view({1, 6, 1, 8});
  const auto pairs = x.unflatten(-1, {4, 2});
  const auto turned = at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  const auto halves = at::cat({-x.slice(3, 4), x.slice(3, 0, 4)}, 3);
  const auto other = [&](const Tensor& other_ids, double theta) {
    return apply_rope(x, rope_table(other_ids, axes, theta, at::kDouble));
  };
  expect_rejected(apply_rope(x, table), x * cos + turned * sin,
                  {{"halves for interleaved pairs", x * cos + halves * sin},
                   {"the other way round", x * cos - turned * sin},
                   {"sin and cos swapped", x * sin + turned * cos},
                   {"ids of the next token", other(ids + 1, 10000)},
                   {"ids not split: the first shard's", other(at::cat({ids.slice(0, 0, 3), ids.slice(0, 0, 3)}), 10000)},
                   {"axes swapped", other(ids.flip(1), 10000)},
                   {"theta 1000", other(ids, 1000)},
                   {"table in fp32", apply_rope(x, {table.cos_SD.to(at::kFloat), table.sin_SD.to(at::kFloat)})},
                   {"not applied", x}});
}

TEST(BrokenVariants, Modulation) {
  const auto x = normal({2, 3, 4}, "x"), y = normal({2, 3, 4}, "y"), scale = normal({2, 4}, "scale"),
             shift = normal({2, 4}, "shift");
  const auto a = scale.unsqueeze(1), b = shift.unsqueeze(1);
  expect_rejected(
      modulate(x, scale, shift), x * (1 + a) + b,
      {{"1 + missing", x * a + b},
       {"scale and shift swapped", modulate(x, shift, scale)},
       {"shift before scale", (x + b) * (1 + a)},
       {"shift left out", x * (1 + a)},
       {"batch item 0's for all", modulate(x, scale.slice(0, 0, 1).expand({2, 4}), shift.slice(0, 0, 1).expand({2, 4}))}});
  expect_rejected(gate_residual(x, scale, y), x + a * y,
                  {{"gate before the residual", a * (x + y)},
                   {"gate on the residual", a * x + y},
                   {"gate left out", x + y},
                   {"1 + gate", x + (1 + a) * y},
                   {"residual left out", a * y},
                   {"batch items swapped", gate_residual(x, scale.flip(0), y)}});
}

TEST(BrokenVariants, Activations) {
  const auto x = normal({50}, "x");
  const auto tanh_form = [&](double root, double cubic) { return 0.5 * x * (1 + at::tanh(root * (x + cubic * x * x * x))); };
  const double root = std::sqrt(2 / std::numbers::pi);
  expect_rejected(gelu_tanh(x), tanh_form(root, 0.044715),
                  {{"exact erf form", at::gelu(x)},
                   {"sigmoid approximation", x * at::sigmoid(1.702 * x)},
                   {"0.0447", tanh_form(root, 0.0447)},
                   {"no cubic term", tanh_form(root, 0)},
                   {"silu", at::silu(x)}});
  expect_rejected(shardproof::silu(x), x / (1 + at::exp(-x)),
                  {{"sigmoid", at::sigmoid(x)}, {"gelu", at::gelu(x)}, {"relu", at::relu(x)}});
}

TEST(BrokenVariants, TimestepEmbedding) {
  const auto t = at::tensor({1., 250.5, 999.}, at::kDouble), j = at::arange(8, at::kDouble);
  const auto angles = [&](double period, double half) { return t.unsqueeze(1) * at::exp(-std::log(period) * j / half); };
  const auto a = angles(10000, 8);
  expect_rejected(timestep_embedding(t, 16, at::kDouble), at::cat({at::cos(a), at::sin(a)}, 1),
                  {{"sine first", at::cat({at::sin(a), at::cos(a)}, 1)},
                   {"interleaved", at::stack({at::cos(a), at::sin(a)}, 2).flatten(1)},
                   {"downscale_freq_shift 1", at::cat({at::cos(angles(10000, 7)), at::sin(angles(10000, 7))}, 1)},
                   {"period 1000", at::cat({at::cos(angles(1000, 8)), at::sin(angles(1000, 8))}, 1)},
                   {"time in [0, 1]", timestep_embedding(t / 1000, 16, at::kDouble)},
                   {"fp32 arithmetic", timestep_embedding(t.to(at::kFloat), 16, at::kDouble)}});
}

TEST(BrokenVariants, Attention) {
  for (const auto& name : families()) {
    const auto x = family(name, 2, 9, 130, 4, 2, 12);
    auto mask = at::arange(130).expand({2, 130}) < at::tensor({125, 70}).view({2, 1});
    const auto right = attention_reference(x.q, x.k, x.v, mask).out_BSHD;
    const auto backend = make_attention_backend("kokkos_flash");
    const auto run = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& m) {
      return backend->forward(q, k, v, m).out_BSHD;
    };
    const auto padded_k = x.k.masked_fill(mask.logical_not().view({2, 130, 1, 1}), 0),
               padded_v = x.v.masked_fill(mask.logical_not().view({2, 130, 1, 1}), 0);
    expect_rejected(
        run(x.q, x.k, x.v, mask), right,
        {{"mask ignored", run(x.q, x.k, x.v, at::ones_like(mask))},
         {"mask turned round", run(x.q, x.k, x.v, mask.logical_not())},
         {"a zero pad token left in",
          run(x.q, padded_k, padded_v, at::arange(130).expand({2, 130}) < at::tensor({126, 71}).view({2, 1}))},
         {"last key tile dropped", run(x.q, x.k, x.v, mask.logical_and(at::arange(130) < 64))},
         {"last key dropped", run(x.q, x.k, x.v, at::arange(130).expand({2, 130}) < at::tensor({124, 69}).view({2, 1}))},
         {"no scale", run(x.q * std::sqrt(12.0), x.k, x.v, mask)},
         {"scale 1/D", run(x.q / std::sqrt(12.0), x.k, x.v, mask)},
         {"wrong key/value head", run(x.q, x.k.flip(2), x.v.flip(2), mask)},
         {"query heads interleaved", run(x.q.index_select(2, at::tensor({0, 2, 1, 3})), x.k, x.v, mask)},
         {"another batch item's mask", run(x.q, x.k, x.v, mask.flip(0))},
         {"values of the next key", run(x.q, x.k, x.v.roll(1, 1), mask)},
         {"fp32 arithmetic", run(x.q.to(at::kFloat), x.k.to(at::kFloat), x.v.to(at::kFloat), mask)}});
  }
}

TEST(BrokenVariants, LogSumExp) {
  const auto x = family("structured", 1, 5, 20, 2, 2, 8);
  const auto lse = make_attention_backend("kokkos_flash")->forward(x.q, x.k, x.v, std::nullopt).lse_BSH;
  const auto scores = at::matmul(x.q.transpose(1, 2), x.k.permute({0, 2, 3, 1})) / std::sqrt(8.0);
  const auto right = at::logsumexp(scores, {-1}).transpose(1, 2);
  expect_rejected(lse, right,
                  {{"base 2", right / std::numbers::ln2},
                   {"maximum not added back", (at::logsumexp(scores, {-1}) - scores.amax(-1)).transpose(1, 2)},
                   {"maximum alone", scores.amax(-1).transpose(1, 2)},
                   {"scale left out", at::logsumexp(scores * std::sqrt(8.0), {-1}).transpose(1, 2)},
                   {"[B, H, S] order", right.transpose(1, 2).contiguous().view_as(right)}});
}

TEST(BrokenVariants, Merge) {
  for (const auto& name : families()) {
    const auto x = family(name, 1, 6, 24, 2, 2, 8);
    const auto backend = make_attention_backend("kokkos_flash");
    const auto block = [&](int64_t from, int64_t to) {
      return backend->forward(x.q, x.k.slice(1, from, to), x.v.slice(1, from, to), std::nullopt);
    };
    const Attended a = block(0, 10), b = block(10, 24);
    const auto merge = [](const Attended& into, const Attended& other) {
      Attended sum{into.out_BSHD.clone(), into.lse_BSH.clone()};
      merge_partial(sum, other);
      return sum.out_BSHD;
    };
    const auto share = [&](const Tensor& la, const Tensor& lb) {
      const auto w = at::sigmoid(la - lb).unsqueeze(-1);
      return w * a.out_BSHD + (1 - w) * b.out_BSHD;
    };
    const auto& [out_a, lse_a] = a;
    const auto& [out_b, lse_b] = b;
    expect_rejected(merge(a, b), attention_reference(x.q, x.k, x.v).out_BSHD,
                    {{"plain average", (out_a + out_b) / 2},
                     {"average by number of keys", (10 * out_a + 14 * out_b) / 24},
                     {"lse in base 2", share(lse_a / std::numbers::ln2, lse_b / std::numbers::ln2)},
                     {"weights swapped", share(lse_b, lse_a)},
                     {"lse not rotated with its block", share(lse_a, lse_a)},
                     {"a block used twice", merge(a, {merge(a, b), at::logaddexp(lse_a, lse_b)})},
                     {"a block dropped", out_a},
                     {"bf16 accumulation", merge({out_a.to(at::kBFloat16), lse_a}, b)},
                     {"lse rounded to fp32", share(lse_a.to(at::kFloat).to(at::kDouble), lse_b.to(at::kFloat).to(at::kDouble))}});
  }
}

TEST(BrokenVariants, Pack) {
  const std::vector<int64_t> sizes{2, 2};
  const auto x = at::arange(2 * 4 * 4 * 3, at::kDouble).view({2, 4, 4, 3});
  const auto chunks = [&](const Tensor& t, int64_t dim) {
    return at::cat({t.slice(dim, 0, 2).flatten(), t.slice(dim, 2, 4).flatten()});
  };
  expect_rejected(pack_heads(x, sizes), chunks(x, 2),
                  {{"heads permuted", pack_heads(x.index_select(2, at::tensor({0, 2, 1, 3})), sizes)},
                   {"chunks in the wrong order", pack_heads(x.roll(2, 2), sizes)},
                   {"memory as it lies", x.flatten()},
                   {"tokens for heads", pack_sequence(x, sizes)},
                   {"strides of a transposed input ignored", x.transpose(1, 2).contiguous().flatten()}});
  const auto flat = pack_sequence(x, sizes);
  expect_rejected(unpack_sequence(flat, 2, sizes, 4, 3), x,
                  {{"batch inside the chunks", flat.view({2, 4, 4, 3})},
                   {"lengths swapped", unpack_sequence(flat, 2, {1, 3}, 4, 3)},
                   {"heads for tokens", unpack_heads(flat, 2, 4, sizes, 3)}});
}

}  // namespace
}  // namespace shardproof::test
