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

// sglang#33327, diffusers#12443: text that stays whole on every rank would be attended to once per rank.
TEST_F(Flux1Session, RefusesAPlanThatLeavesTokensUnsplit) {
  struct TextWhole final : Strategy {
    std::string_view name() const override { return "text_whole"; }
    std::vector<Axis> axes() const override { return {Axis::ring}; }
    std::optional<std::string> unsupported(const ModelTraits&, const Request&, const MeshShape&) const override { return std::nullopt; }
    Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
      Plan plan = find_strategy("ring").plan(model, mesh);
      plan.inputs.erase("encoder_hidden_states");
      return plan;
    }
    WireCost wire_cost(const ModelTraits&, const Request&, const MeshShape&, int) const override { return {}; }
    std::unique_ptr<AttentionBackend> attention(const Mesh&, std::unique_ptr<AttentionBackend> local, KeyValueMeter&) const override { return local; }
  } strategy;
  test::expect_error(Fault::input, {"encoder_hidden_states", "unsplit"}, [&] {
    run_local(2, [&](Communicator& world) {
      SyntheticWeights weights(spec_.traits.parameters, 0, at::kFloat);
      Session(spec_, strategy, MeshShape({{Axis::ring, 2}}), world, weights, at::kDouble, make_attention_backend("kokkos_flash"));
    });
  });
}

/// A backend that keeps its log-sum-exp to itself.
class NoLse final : public AttentionBackend {
 public:
  std::string_view name() const override { return "no_lse"; }
  AttentionTraits traits() const override { return {.lse = false, .mask = true, .gqa = true}; }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep) override {
    return {make_attention_backend("aten_math")->forward(q, k, v, mask, keep).out_BSHD, Tensor()};
  }
};

// diffusers#12832: the check ran when context parallelism was enabled, not when the backend was changed after that.
TEST_F(Flux1Session, ChecksTheBackendWhenChosenAndWhenChanged) {
  run_local(2, [&](Communicator& world) {
    SyntheticWeights weights(spec_.traits.parameters, 0, at::kFloat);
    const MeshShape ring({{Axis::ring, 2}});
    test::expect_error(Fault::input, {"[ring]", "no_lse", "log-sum-exp"},
                       [&] { Session(spec_, find_strategy("ring"), ring, world, weights, at::kDouble, std::make_unique<NoLse>()); });
    Session session(spec_, find_strategy("ring"), ring, world, weights, at::kDouble, make_attention_backend("kokkos_flash"));
    Probe none;
    const Tensor before = session.forward(inputs_, none);
    test::expect_error(Fault::input, {"[ring]", "no_lse"}, [&] { session.change_attention(std::make_unique<NoLse>()); });
    EXPECT_TRUE(at::equal(session.forward(inputs_, none), before));  // the old one is still there
    session.change_attention(make_attention_backend("aten_math"));
    EXPECT_TRUE(at::allclose(session.forward(inputs_, none), before, 1e-10, 1e-12));
  });
  run_local(2, [&](Communicator& world) {  // ulysses does not merge
    SyntheticWeights weights(spec_.traits.parameters, 0, at::kFloat);
    Session session(spec_, find_strategy("ulysses"), MeshShape({{Axis::ulysses, 2}}), world, weights, at::kDouble, std::make_unique<NoLse>());
    Probe none;
    EXPECT_EQ(session.forward(inputs_, none).size(1), 12);
  });
}

/// Qwen-Image's `_cp_plan` splits at the first block, after the embedders: the same result as a split at the entry.
TEST_F(Flux1Session, SplitsInsideTheModel) {
  const auto run = [&](const ModelSpec& spec) {
    std::vector<Tensor> outputs(3);
    run_local(3, [&](Communicator& world) {
      SyntheticWeights weights(spec.traits.parameters, 0, at::kFloat);
      Session session(spec, find_strategy("ulysses_anything"), MeshShape({{Axis::ulysses, 3}}), world, weights, at::kDouble,
                      make_attention_backend("kokkos_flash"));
      Probe none;
      outputs[world.rank()] = session.forward(inputs_, none);
    });
    return outputs;
  };
  ModelSpec inside = spec_;
  for (const char* moved : {"hidden_states", "encoder_hidden_states"}) inside.traits.cp_inputs.erase(moved);
  inside.traits.cp_module_inputs = {{"transformer_blocks.0.image", {1, 3}}, {"transformer_blocks.0.text", {1, 3}}};
  const auto entry = run(spec_), block = run(inside);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(at::allclose(block[rank], entry[rank], 1e-12, 1e-13)) << rank;

  inside.traits.cp_module_inputs["transformer_blocks.7.image"] = {1, 3};
  test::expect_error(Fault::input, {"transformer_blocks.7.image", "never passes"}, [&] { run(inside); });
  inside.traits.cp_module_inputs.erase("transformer_blocks.7.image");
  inside.traits.cp_module_inputs["transformer_blocks.0.image"] = {1, 4};
  test::expect_error(Fault::input, {"transformer_blocks.0.image", "4 dims", "has 3"}, [&] { run(inside); });
}

TEST_F(Flux1Session, RefusesAMaskOfAnotherShapeOrDtype) {
  inputs_["encoder_hidden_states_mask"] = at::ones({1, 6}, at::kFloat);
  test::expect_error(Fault::input, {"encoder_hidden_states_mask", "Float", "bool"}, [&] { forward("ulysses", Axis::ulysses, 3); });
  inputs_["encoder_hidden_states_mask"] = at::ones({1, 5}, at::kBool);
  test::expect_error(Fault::input, {"encoder_hidden_states_mask", "5"}, [&] { forward("ulysses", Axis::ulysses, 3); });
  inputs_["encoder_hidden_states_mask"] = at::ones({1, 1, 1, 6}, at::kBool);
  forward("ulysses", Axis::ulysses, 3);
}

TEST_F(Flux1Session, RefusesGuidanceThatIsMissing) {
  inputs_.erase("guidance");
  test::expect_error(Fault::input, {"guidance", "lack"}, [&] { forward("tp", Axis::tp, 2); });
}

}  // namespace
}  // namespace shardproof
