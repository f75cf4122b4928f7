#include "models/flux1.hpp"
#include "strategies/attention_choice.hpp"
#include "strategies/registry.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

ModelTraits dev() { return flux1_traits(flux1_preset("flux1-dev")); }

Request request(int64_t image = 4096, int64_t text = 512, at::ScalarType dtype = at::kBFloat16) {
  return {.batch = 1, .image_tokens = image, .text_tokens = text, .dtype = dtype};
}

MeshShape mesh(Axis axis, int degree) { return MeshShape({{axis, degree}}); }

TEST(Registry, NamesAndLists) {
  EXPECT_EQ(parse_strategies("all").size(), all_strategies().size());
  EXPECT_EQ(parse_strategies("tp,ring,tp").size(), 2u);
  EXPECT_EQ(find_strategy("tp").name(), "tp");
  test::expect_error(Fault::input, {"\"tpp\"", "ulysses", "all"}, [] { parse_strategies("tp,tpp"); });
}

TEST(Plans, SingleIsEmpty) { EXPECT_EQ(find_strategy("single").plan(dev(), MeshShape()), Plan{}); }

/// FLUX.1's tokens cut over these axes, by hand.
Plan cut_over(const std::vector<std::pair<Axis, int>>& degrees, const std::vector<Axis>& axes, bool uneven) {
  return {.mesh = MeshShape(degrees),
          .weights = {},
          .inputs = {{"hidden_states", {1, 3, axes, uneven}},
                     {"encoder_hidden_states", {1, 3, axes, uneven}},
                     {"encoder_hidden_states_mask", {1, 2, axes, uneven}},
                     {"img_ids", {0, 2, axes, uneven}},
                     {"txt_ids", {0, 2, axes, uneven}}},
          .outputs = {{"proj_out", {1, 3, axes, uneven}}}};
}

TEST(Plans, ContextParallelSplitsTokensAndGathersTheOutput) {
  for (const auto& [name, axis] : {std::pair{"ulysses", Axis::ulysses}, {"ring", Axis::ring}, {"ring_p2p", Axis::ring}}) {
    const Plan plan = find_strategy(name).plan(dev(), mesh(axis, 4));
    EXPECT_EQ(plan, cut_over({{axis, 4}}, {axis}, false)) << name;
  }
}

TEST(Plans, UnifiedIsTheProductOfRingAndUlysses) {
  const MeshShape mesh({{Axis::ring, 2}, {Axis::ulysses, 4}});
  EXPECT_EQ(find_strategy("unified").plan(dev(), mesh),
            cut_over({{Axis::ring, 2}, {Axis::ulysses, 4}}, {Axis::ring, Axis::ulysses}, false));
  EXPECT_EQ(find_strategy("unified_anything").plan(dev(), mesh),
            cut_over({{Axis::ring, 2}, {Axis::ulysses, 4}}, {Axis::ring, Axis::ulysses}, true));
  EXPECT_EQ(&find_strategy("unified_balanced"), &find_strategy("unified"));
  EXPECT_EQ(find_strategy("ring+ulysses").plan(dev(), mesh), find_strategy("unified").plan(dev(), mesh));
}

TEST(Plans, TensorTimesContextParallelHasBoth) {
  const MeshShape mesh({{Axis::tp, 2}, {Axis::ulysses, 2}});
  Plan expected = cut_over({{Axis::tp, 2}, {Axis::ulysses, 2}}, {Axis::ulysses}, false);
  expected.weights = dev().tp_plan;
  EXPECT_EQ(find_strategy("tp+ulysses").plan(dev(), mesh), expected);
  test::expect_error(Fault::input, {"ulysses+tp", "tp, ring, ulysses"}, [] { find_strategy("ulysses+tp"); });
  test::expect_error(Fault::input, {"ring+ring_p2p"}, [] { find_strategy("ring+ring_p2p"); });
  test::expect_error(Fault::input, {"\"rong\""}, [] { find_strategy("tp+rong"); });
}

TEST(Plans, DataParallelSplitsPrompts) {
  const Plan plan = find_strategy("data_parallel").plan(dev(), mesh(Axis::dp, 3));
  EXPECT_EQ(plan.inputs.size(), 6u);  // ids are shared by all prompts
  EXPECT_EQ(plan.inputs.at("timestep"), (Split{0, 1, {Axis::dp}, true}));
  EXPECT_EQ(plan.outputs.at("proj_out"), (Split{0, 3, {Axis::dp}, true}));
  EXPECT_TRUE(plan.weights.empty());
}

TEST(Plans, TensorParallelIsTheShippedPlan) {
  const Plan plan = find_strategy("tp").plan(dev(), mesh(Axis::tp, 2));
  EXPECT_EQ(plan.weights.size(), 17u);
  EXPECT_EQ(plan.weights.at("transformer_blocks.*.attn.to_out.0"), Sharding(Rowwise{}));
  EXPECT_EQ(plan.weights.at("transformer_blocks.*.attn.add_q_proj"), Sharding(Colwise{}));
  EXPECT_EQ(plan.weights.at("single_transformer_blocks.*.proj_out"), Sharding(Rowwise{{3072, 12288}, false}));
  EXPECT_EQ(plan_entry(plan, "transformer_blocks.0.norm1.linear").sharding, Sharding(Replicated{}));
  EXPECT_TRUE(plan.inputs.empty());
}

TEST(Unsupported, GivesTheReasonFromShapesAlone) {
  const auto reason = [](const char* name, Axis axis, int degree, const Request& r) {
    return find_strategy(name).unsupported(dev(), r, mesh(axis, degree)).value_or("");
  };
  EXPECT_EQ(reason("ulysses", Axis::ulysses, 5, request(4000, 500)), "[ulysses] 24 heads are not divisible by ulysses 5");
  EXPECT_EQ(reason("tp", Axis::tp, 5, request()), "[tp] 24 heads are not divisible by tp 5");
  // The guide's 1008 × 1008 rows: 63 × 63 = 3969 image tokens.
  EXPECT_EQ(reason("ulysses", Axis::ulysses, 4, request(3969)), "[ulysses] 3969 image tokens are not divisible by ulysses 4");
  EXPECT_EQ(reason("ring", Axis::ring, 4, request(3969)), "[ring] 3969 image tokens are not divisible by ring 4");
  EXPECT_EQ(reason("ring", Axis::ring, 4, request(4096, 510)), "[ring] 510 text tokens are not divisible by ring 4");
  EXPECT_EQ(reason("ulysses", Axis::ulysses, 4, request()), "");
  EXPECT_EQ(reason("ring", Axis::ring, 4, request()), "");
  EXPECT_EQ(reason("ring_anything", Axis::ring, 4, request(3969, 510)), "");
  EXPECT_EQ(reason("ulysses_anything", Axis::ulysses, 5, request(3969, 510)), "");
  EXPECT_EQ(reason("ulysses_anything", Axis::ulysses, 4, request(3, 2)),
            "[ulysses_anything] 3 image and 2 text tokens are fewer than ulysses 4: a rank would hold none");
}

TEST(Unsupported, ProductsNameTheAxesTogether) {
  const auto reason = [](const char* name, const MeshShape& mesh, const Request& r) {
    return find_strategy(name).unsupported(dev(), r, mesh).value_or("");
  };
  const MeshShape two_by_two({{Axis::ring, 2}, {Axis::ulysses, 2}});
  EXPECT_EQ(reason("unified", two_by_two, request(3969)), "[ring] 3969 image tokens are not divisible by ring 2 × ulysses 2");
  EXPECT_EQ(reason("unified_anything", two_by_two, request(3969)), "");
  EXPECT_EQ(reason("unified", MeshShape({{Axis::ring, 1}, {Axis::ulysses, 3}}), request(3, 3)),
            "[unified] ring 1: every degree must be 2 or more, so at least 4 ranks");
  // (H / T) % U: 6 heads at tp 2 leave 3, which ulysses 2 does not divide, though 2 divides 6.
  ModelTraits model = dev();
  const auto legal = [&](int64_t heads, int tp, int ulysses) {
    model.heads = model.kv_heads = heads;
    return !find_strategy("tp+ulysses").unsupported(model, request(), MeshShape({{Axis::tp, tp}, {Axis::ulysses, ulysses}}));
  };
  EXPECT_FALSE(legal(6, 2, 2));
  EXPECT_TRUE(legal(8, 2, 2));
  EXPECT_TRUE(legal(56, 2, 4));
  EXPECT_FALSE(legal(56, 4, 4));
  model.heads = model.kv_heads = 6;
  EXPECT_EQ(
      find_strategy("tp+ulysses").unsupported(model, request(), MeshShape({{Axis::tp, 2}, {Axis::ulysses, 2}})).value_or(""),
      "[ulysses] 6 heads are not divisible by tp 2 × ulysses 2");
}

TEST(AttentionChoice, RefusesWhatABackendCannotDo) {
  ModelTraits model = dev();
  const auto reason = [&](const char* strategy, AttentionTraits can, bool mask = false, at::ScalarType dtype = at::kFloat) {
    return attention_unsupported(find_strategy(strategy), model, "fused", can, dtype, mask).value_or("");
  };
  AttentionTraits no_lse{.lse = false, .mask = true, .gqa = true};
  for (const char* ring : {"ring", "ring_p2p", "ring_anything", "unified", "tp+unified_anything"})
    EXPECT_EQ(reason(ring, no_lse), "attention backend fused gives no log-sum-exp, which merging needs") << ring;
  for (const char* other : {"single", "ulysses", "ulysses_anything", "tp"}) EXPECT_EQ(reason(other, no_lse), "") << other;
  EXPECT_EQ(reason("ulysses", {.lse = true, .mask = false, .gqa = true}, true), "attention backend fused takes no key mask");
  EXPECT_EQ(reason("single", {.lse = true, .mask = true, .gqa = true, .dtypes = {at::kBFloat16}}),
            "attention backend fused does not take fp32");
  EXPECT_EQ(reason("single", {.lse = true, .mask = true, .gqa = true, .device = "cuda"}),
            "attention backend fused runs on cuda; this run is on cpu");
  model.kv_heads = 8;
  EXPECT_NE(reason("single", {.lse = true, .mask = true, .gqa = false}).find("key/value heads (8)"), std::string::npos);
}

TEST(Unsupported, KeyValueHeadsCountToo) {  // transformers#48307, LlamaFactory#10794
  ModelTraits few = dev();
  few.kv_heads = 2;
  EXPECT_NE(find_strategy("ulysses").unsupported(few, request(), mesh(Axis::ulysses, 4)).value_or("").find("2 key/value heads"),
            std::string::npos);
  EXPECT_NE(find_strategy("tp").unsupported(few, request(), mesh(Axis::tp, 4)).value_or("").find("2 key/value heads"),
            std::string::npos);
}

TEST(Unsupported, NamesTheLinearAndItsPlanEntry) {
  ModelTraits odd = dev();
  odd.linears.push_back({"transformer_blocks.0.ff.net.0.proj", 12290, 3072, Tokens::image});
  const auto reason = find_strategy("tp").unsupported(odd, request(), mesh(Axis::tp, 4)).value_or("");
  EXPECT_NE(reason.find("transformer_blocks.*.ff.net.0.proj: colwise"), std::string::npos) << reason;
}

/// Bytes of rank 0 for one forward of FLUX.1-dev without the gather of the output, which semantics.md leaves out.
int64_t attention_bytes(const char* name, Axis axis) {
  const Strategy& strategy = find_strategy(name);
  const int64_t gather = 3 * 4096 / 4 * 64 * 2;  // [1, 1024, 64] bf16 to three peers
  return strategy.wire_cost(dev(), request(), mesh(axis, 4), 0).bytes - gather;
}

TEST(WireCost, Flux1DevByHand) {  // S = 4608, h = 3072, bf16, N = 4, 57 attentions
  EXPECT_EQ(attention_bytes("ulysses", Axis::ulysses), int64_t{57} * 4 * (4608 / 4) * 3072 * 2 * 3 / 4);  // 1.210 GB
  EXPECT_EQ(attention_bytes("ring", Axis::ring), int64_t{57} * 2 * (4608 / 4) * 3072 * 2 * 3);            // 2.421 GB
  EXPECT_NEAR(static_cast<double>(attention_bytes("ulysses", Axis::ulysses)) / 1e9, 1.210, 0.0006);
  EXPECT_NEAR(static_cast<double>(attention_bytes("ring", Axis::ring)) / 1e9, 2.421, 0.0006);
  EXPECT_EQ(attention_bytes("ring_p2p", Axis::ring), attention_bytes("ring", Axis::ring));
  EXPECT_EQ(attention_bytes("ring_anything", Axis::ring), attention_bytes("ring", Axis::ring) + 57 * 3 * 8);
  EXPECT_EQ(attention_bytes("ulysses_anything", Axis::ulysses), attention_bytes("ulysses", Axis::ulysses) + 57 * 3 * 16);
  const auto unified =
      find_strategy("unified").wire_cost(dev(), request(), MeshShape({{Axis::ring, 2}, {Axis::ulysses, 2}}), 0).bytes;
  const int64_t x = int64_t{4608} * 3072 * 2 / 4, gathers = (1024 + 2048) * 64 * 2;  // over ulysses, then over ring
  EXPECT_EQ(unified - gathers, 57 * (4 * x / 2 + 2 * x));
  EXPECT_NEAR(static_cast<double>(unified - gathers) / 1e9, 1.614, 0.0006);
  const auto tp = find_strategy("tp").wire_cost(dev(), request(), mesh(Axis::tp, 4), 0).bytes;
  EXPECT_EQ(tp, int64_t{76} * 2 * 3 * 4608 * 3072 * 2 / 4);  // 3.228 GB
  EXPECT_NEAR(static_cast<double>(tp) / 1e9, 3.228, 0.0006);
}

TEST(WireCost, OneRankSendsNothing) {
  for (const Strategy* strategy : all_strategies()) {
    std::vector<std::pair<Axis, int>> degrees;
    for (const Axis axis : strategy->axes()) degrees.emplace_back(axis, 1);
    EXPECT_EQ(strategy->wire_cost(dev(), request(), MeshShape(degrees), 0), WireCost{}) << strategy->name();
  }
}

}  // namespace
}  // namespace shardproof
