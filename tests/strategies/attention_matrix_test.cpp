#include "harness/gates.hpp"
#include "harness/inputs.hpp"
#include "kernels/error_stats.hpp"
#include "strategies/attention_choice.hpp"
#include "strategies/token_split.hpp"

#include "tests/strategies/attention_ranks.hpp"

#include <gtest/gtest.h>

#include <map>

namespace shardproof {
namespace {

/// Attention alone, every strategy, over lengths, heads, batches, families and masks: the logic gate in fp64, the precision
/// gate in fp32 and bf16, bit-equality for the ulysses family, and traffic equal to wire_cost to the byte.
class Matrix : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, Matrix, testing::Values(2, 3, 4, 6, 8), testing::PrintToStringParamName());

struct Case {
  MeshShape mesh;
  int64_t batch, text, tokens, heads, kv_heads;
  std::string family;
  bool masked;
  std::string text_of(const std::string& strategy) const {
    return fmt::format("{}[{}] B{} text {} of {} H{} K{} {} {}", strategy, mesh.text(), batch, text, tokens, heads, kv_heads, family,
                       masked ? "masked" : "");
  }
};

struct Whole {
  Tensor q, k, v;
  std::optional<Tensor> mask;
};

Whole inputs_of(const Case& c) {
  const auto x = attention_inputs({c.batch, c.tokens, c.heads, 8}, {c.batch, c.tokens, c.kv_heads, 8}, c.family, 11, "matrix");
  Whole whole{x.at("q"), x.at("k"), x.at("v"), {}};
  if (c.masked) whole.mask = at::cat({padded_mask(c.batch, c.text), at::ones({c.batch, c.tokens - c.text}, at::kBool)}, 1);
  return whole;
}

/// One device's result with the keys in the order in which a ulysses rank sees them.
Tensor single_in_gathered_order(const Whole& x, const Case& c) {
  std::vector<int64_t> order;
  for (int rank = 0; rank < c.mesh.world_size(); ++rank)
    for (const int64_t token : test::tokens_of(c.mesh, rank, c.text, c.tokens - c.text)) order.push_back(token);
  const Tensor keys = at::tensor(order, at::kLong);
  const auto mask = x.mask ? std::optional(x.mask->index_select(1, keys)) : std::nullopt;
  return make_attention_backend("kokkos_flash")->forward(x.q, x.k.index_select(1, keys), x.v.index_select(1, keys), mask).out_BSHD;
}

/// Over all cases of one strategy, axis degrees and dtype: errors pooled, since one small tensor's ratio scatters.
struct Pool {
  double ranks = 0, single = 0;
  int64_t count = 0;
};

class Checker {
 public:
  void run(const std::string& strategy, const Case& c) {
    const ModelTraits model = traits_of(c);
    const Request request{c.batch, c.tokens - c.text, c.text, at::kDouble, c.masked};
    if (find_strategy(strategy).unsupported(model, request, c.mesh)) {
      ++refused[strategy];
      return;
    }
    ++ran[strategy];
    const Whole exact = inputs_of(c);
    const Tensor truth = make_attention_backend("aten_math")->forward(exact.q, exact.k, exact.v, exact.mask).out_BSHD;
    const auto ranks = test::attend(strategy, c.mesh, exact.q, exact.k, exact.v, c.text, c.text, exact.mask);
    EXPECT_LE(error_stats(ranks.out_BSHD, truth).relative_l2, logic_gate) << c.text_of(strategy);
    check_traffic(strategy, c, model, request, ranks.traffic);
    for (const auto dtype : {at::kFloat, at::kBFloat16}) precision(strategy, c, exact, dtype);
  }

  std::map<std::string, int> ran, refused;
  std::map<std::string, Pool> pools;

 private:
  static ModelTraits traits_of(const Case& c) {
    ModelTraits model;
    model.heads = c.heads;
    model.kv_heads = c.kv_heads;
    model.head_dim = 8;
    model.out_channels = 4;
    return model;
  }

  /// The cost of one attention is that of a forward with one, less that of a forward with none.
  static void check_traffic(const std::string& strategy, const Case& c, ModelTraits model, const Request& request, const std::vector<Traffic>& sent) {
    for (int rank = 0; rank < c.mesh.world_size(); ++rank) {
      model.attentions.clear();
      const WireCost none = find_strategy(strategy).wire_cost(model, request, c.mesh, rank);
      model.attentions = {"attn"};
      EXPECT_EQ((sent[rank] + none).text(), find_strategy(strategy).wire_cost(model, request, c.mesh, rank).text()) << c.text_of(strategy) << " rank " << rank;
    }
  }

  void precision(const std::string& strategy, const Case& c, const Whole& exact, at::ScalarType dtype) {
    const Whole x{exact.q.to(dtype), exact.k.to(dtype), exact.v.to(dtype), exact.mask};
    const Tensor truth = make_attention_backend("aten_math")->forward(x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble), x.mask).out_BSHD;
    const Tensor out = test::attend(strategy, c.mesh, x.q, x.k, x.v, c.text, c.text, x.mask).out_BSHD;
    const Tensor single = make_attention_backend("kokkos_flash")->forward(x.q, x.k, x.v, x.mask).out_BSHD;
    if (strategy.starts_with("ulysses")) {
      EXPECT_TRUE(at::equal(out, single_in_gathered_order(x, c))) << c.text_of(strategy);
    }
    Pool& pool = pools[fmt::format("{} {} {}", strategy, c.mesh.text(), c10::toString(dtype))];
    const double norm = truth.square().sum().item<double>();
    pool.ranks += (out.to(at::kDouble) - truth).square().sum().item<double>() / norm;
    pool.single += std::max((single.to(at::kDouble) - truth).square().sum().item<double>() / norm, std::pow(error_floor(dtype), 2));
    pool.count += truth.numel();
  }
};

std::vector<MeshShape> meshes_of(const Strategy& strategy, int ranks) {
  const auto axes = strategy.axes();
  if (axes.size() == 1) return {MeshShape({{axes[0], ranks}})};
  std::vector<MeshShape> meshes;
  for (int outer = 2; outer < ranks; ++outer)
    if (ranks % outer == 0) meshes.emplace_back(std::vector<std::pair<Axis, int>>{{axes[0], outer}, {axes[1], ranks / outer}});
  return meshes;
}

TEST_P(Matrix, EveryStrategyOnEveryLengthAndHeadCount) {
  const int ranks = GetParam();
  Checker checker;
  const std::vector<std::string> strategies{"ulysses", "ring", "ring_p2p", "unified", "ulysses_anything", "ring_anything", "unified_anything"};
  for (const auto& strategy : strategies)
    for (const MeshShape& mesh : meshes_of(find_strategy(strategy), ranks))
      for (int64_t tokens = ranks; tokens <= 4 * ranks + 3; ++tokens)
        for (const int64_t heads : {1, 2, 3, 5, 8, 24, 30}) {
          const int64_t turn = tokens + heads;
          const int64_t text = turn % 2 == 0 ? 0 : ranks * (tokens / ranks / 2) + (tokens % ranks != 0 ? 1 : 0);
          const int64_t kv_heads = heads % 2 == 0 && turn % 5 < 2 ? heads / 2 : heads;
          checker.run(strategy, {mesh, 1 + turn % 2, text, tokens, heads, kv_heads, input_families()[turn % 3], text > 0 && turn % 4 < 2});
        }
  for (const auto& strategy : strategies) {
    if (ranks < 4 && strategy.starts_with("unified")) continue;
    if (meshes_of(find_strategy(strategy), ranks).empty()) continue;
    EXPECT_GE(checker.ran[strategy], 4) << strategy;
    const bool any = strategy.find("anything") != std::string::npos;
    EXPECT_EQ(checker.refused[strategy] > 0, !any) << strategy;  // and never where it claims to take anything
  }
  for (const auto& [name, pool] : checker.pools) {
    const double ratio = std::sqrt(pool.ranks / pool.single), gate = 1.05 + 4 / std::sqrt(static_cast<double>(pool.count));
    EXPECT_LE(ratio, gate) << name;
  }
}

}  // namespace
}  // namespace shardproof
