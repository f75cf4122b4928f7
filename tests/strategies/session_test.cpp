#include "comm/local.hpp"
#include "comm/recording.hpp"
#include "models/flux1.hpp"
#include "models/synthetic_weights.hpp"
#include "strategies/registry.hpp"
#include "strategies/session.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

/// One Linear: what a session reads and keeps of it is easy to count.
ModelSpec one_linear(Sharding sharding) {
  ModelSpec spec{"one", {}, {}};
  spec.traits.heads = spec.traits.kv_heads = 8;
  spec.traits.linears = {{"fc", 8, 4, Tokens::none}};
  spec.traits.parameters = {{"fc.weight", {8, 4}}, {"fc.bias", {8}}};
  spec.traits.tp_plan = {{"fc", sharding}};
  struct OneLinear final : Model {
    ShardedLinear fc;
    explicit OneLinear(ModuleSource& source) : fc(source.linear("fc", 8, 4)) {}
    Tensor forward(const NamedTensors& inputs, AttentionBackend&, Probe& probe) const override {
      return fc.forward(inputs.at("x"), Tokens::none, probe);
    }
  };
  spec.build = [](ModuleSource& source) { return std::make_unique<OneLinear>(source); };
  return spec;
}

// LightX2V#1390: a shard must not keep the whole tensor alive; weight [8, 4] fp32 is 128 B, a rank of two reads 64.
TEST(Session, ReadsAndHoldsOnlyTheShard) {
  for (const auto& [sharding, bytes] : {std::pair<Sharding, int64_t>{Colwise{}, 64 + 16}, {Rowwise{}, 64 + 32}, {Replicated{}, 128 + 32}}) {
    const ModelSpec spec = one_linear(sharding);
    run_local(2, [&](Communicator& world) {
      SyntheticWeights weights(spec.traits.parameters, 0, at::kFloat);
      const Session session(spec, find_strategy("tp"), MeshShape({{Axis::tp, 2}}), world, weights, at::kFloat, make_attention_backend("aten_math"));
      EXPECT_EQ(weights.bytes_read(), bytes);
      EXPECT_EQ(session.weight_bytes(), bytes);
    });
  }
}

TEST(Session, RefusesAPlanEntryThatMatchesNothing) {
  ModelSpec spec = one_linear(Colwise{});
  spec.traits.tp_plan["fcc"] = Rowwise{};
  test::expect_error(Fault::input, {"fcc: rowwise", "matches no Linear"}, [&] {
    run_local(1, [&](Communicator& world) {
      SyntheticWeights weights(spec.traits.parameters, 0, at::kFloat);
      Session(spec, find_strategy("tp"), MeshShape({{Axis::tp, 1}}), world, weights, at::kFloat, make_attention_backend("aten_math"));
    });
  });
}

class Flux1Session : public testing::Test {
 protected:
  ModelSpec spec_ = flux1_spec("flux1-tiny", flux1_preset("flux1-tiny"));
  NamedTensors inputs_{{"hidden_states", at::ones({1, 12, 16}, at::kDouble)}, {"encoder_hidden_states", at::ones({1, 6, 64}, at::kDouble)},
                       {"pooled_projections", at::ones({1, 32}, at::kDouble)}, {"timestep", at::ones({1}, at::kDouble)},
                       {"guidance", at::ones({1}, at::kDouble)},               {"img_ids", at::zeros({12, 3}, at::kDouble)},
                       {"txt_ids", at::zeros({6, 3}, at::kDouble)}};

  void forward(const char* strategy, Axis axis, int ranks) {
    run_local(ranks, [&](Communicator& world) {
      SyntheticWeights weights(spec_.traits.parameters, 0, at::kFloat);
      Session session(spec_, find_strategy(strategy), MeshShape({{axis, ranks}}), world, weights, at::kDouble, make_attention_backend("kokkos_flash"));
      Probe none;
      EXPECT_EQ(session.forward(inputs_, none).sizes(), (at::IntArrayRef{1, 12, 16}));
    });
  }
};

TEST_F(Flux1Session, GivesTheWholeOutputOnEveryRank) {
  forward("ulysses", Axis::ulysses, 3);
  forward("ring", Axis::ring, 2);
  forward("tp", Axis::tp, 4);
  forward("data_parallel", Axis::dp, 3);  // two ranks without a prompt join the gather
}

// diffusers leaves an input of another rank unsplit with a warning, and attention quietly becomes local.
TEST_F(Flux1Session, RefusesAnInputOfAnotherRank) {
  inputs_["img_ids"] = inputs_["img_ids"].unsqueeze(0);
  test::expect_error(Fault::input, {"img_ids", "2 dims", "has 3"}, [&] { forward("ulysses", Axis::ulysses, 2); });
}

TEST_F(Flux1Session, RefusesAMissingInputAndTokensThatDoNotDivide) {
  test::expect_error(Fault::input, {"encoder_hidden_states", "6 tokens", "ring 5"}, [&] { forward("ring", Axis::ring, 5); });
  inputs_.erase("txt_ids");
  test::expect_error(Fault::input, {"txt_ids", "missing"}, [&] { forward("ring", Axis::ring, 2); });
}

TEST_F(Flux1Session, RefusesGuidanceThatIsMissing) {
  inputs_.erase("guidance");
  test::expect_error(Fault::input, {"guidance", "lack"}, [&] { forward("tp", Axis::tp, 2); });
}

}  // namespace
}  // namespace shardproof
