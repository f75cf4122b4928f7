#include "comm/local.hpp"
#include "models/checkpoint.hpp"
#include "models/flux1.hpp"
#include "models/synthetic_weights.hpp"
#include "strategies/registry.hpp"
#include "strategies/shard_slices.hpp"
#include "strategies/sharded_save.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temp_dir.hpp"

#include <functional>

namespace shardproof {
namespace {

class ShardedSave : public testing::Test {
 protected:
  ModelSpec spec_ = flux1_spec("flux1-tiny", flux1_preset("flux1-tiny"));
  Json config_ = to_json(flux1_preset("flux1-tiny"));
  test::TempDir folder_;

  void on_ranks(const MeshShape& mesh, const std::string& strategy, at::ScalarType dtype, const std::function<void(Session&)>& body) {
    run_local(mesh.world_size(), [&](Communicator& world) {
      SyntheticWeights weights(spec_.traits.parameters, 5, at::kBFloat16);
      Session session(spec_, find_strategy(strategy), mesh, world, weights, dtype, make_attention_backend("kokkos_flash"));
      body(session);
    });
  }
};

/// diffusers refuses to save a tensor-parallel model. Every tensor's bytes come back, packed blocks in their place.
TEST_F(ShardedSave, GatheredTensorsHaveTheOriginalBytes) {
  int turn = 0;
  for (const auto& [strategy, mesh] : {std::pair<std::string, MeshShape>{"tp", MeshShape({{Axis::tp, 4}})}, {"tp", MeshShape({{Axis::tp, 3}})},
                                       {"tp+ulysses", MeshShape({{Axis::tp, 2}, {Axis::ulysses, 2}})}, {"ring", MeshShape({{Axis::ring, 2}})}}) {
    const auto folder = folder_ / std::to_string(turn++);
    on_ranks(mesh, strategy, at::kBFloat16, [&](Session& session) { save_gathered(session, config_, folder); });
    Checkpoint saved(folder);
    SyntheticWeights original(spec_.traits.parameters, 5, at::kBFloat16);
    EXPECT_EQ(saved.names(), original.names());
    for (const auto& name : original.names()) EXPECT_TRUE(at::equal(saved.read(name), original.read(name))) << strategy << " " << name;
    EXPECT_EQ(parse_model_config(saved.config(), "saved"), ModelConfig(flux1_preset("flux1-tiny")));
  }
}

TEST_F(ShardedSave, ShardsLoadAtTheSameDegreeAndRunAlike) {
  const MeshShape mesh({{Axis::tp, 3}});
  on_ranks(mesh, "tp", at::kBFloat16, [&](Session& session) { save_shards(session, config_, folder_ / "shards"); });
  run_local(3, [&](Communicator& world) {
    SyntheticWeights original(spec_.traits.parameters, 5, at::kBFloat16);
    const auto mine = open_shard(folder_ / "shards", 3, world.rank());
    const Session a(spec_, find_strategy("tp"), mesh, world, original, at::kBFloat16, make_attention_backend("kokkos_flash"));
    const Session b(spec_, find_strategy("tp"), mesh, world, *mine, at::kBFloat16, make_attention_backend("kokkos_flash"));
    ASSERT_EQ(a.parameters().size(), b.parameters().size());
    for (const auto& [name, held] : a.parameters()) EXPECT_TRUE(at::equal(held.tensor, b.parameters().at(name).tensor)) << name;
    EXPECT_EQ(mine->bytes_read(), a.weight_bytes());
  });
}

TEST_F(ShardedSave, AnotherDegreeOrPlanIsRefused) {
  on_ranks(MeshShape({{Axis::tp, 2}}), "tp", at::kBFloat16, [&](Session& session) { save_shards(session, config_, folder_ / "shards"); });
  test::expect_error(Fault::input, {"tp-0-of-4", "tp-"}, [&] { open_shard(folder_ / "shards", 4, 0); });
  const auto mine = open_shard(folder_ / "shards", 2, 1);
  const std::string name = "transformer_blocks.0.attn.to_q.weight";
  EXPECT_EQ(mine->find(name)->shape, (std::vector<int64_t>{144, 144}));  // of the whole
  test::expect_error(Fault::input, {name, "0 72+72", "whole"}, [&] { mine->read(name); });
  test::expect_error(Fault::input, {"sharded again"}, [&] { Checkpoint(folder_ / "shards"); });
}

TEST_F(ShardedSave, RefusesAFolderWithWeightsOnEveryRank) {
  test::write_file(folder_ / "old.safetensors", "x");
  int refused = 0;
  on_ranks(MeshShape({{Axis::tp, 2}}), "tp", at::kBFloat16, [&](Session& session) {
    test::expect_error(Fault::input, {"[save]"}, [&] { save_gathered(session, config_, folder_.path()); });
    ++refused;
  });
  EXPECT_EQ(refused, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.json"));
}

/// performance.md's table: parameters a rank holds, in bf16.
TEST(RankSlices, CountWhatSessionsHold) {
  const ModelTraits dev = flux1_traits(flux1_preset("flux1-dev"));
  for (const auto& [tp, gigabytes] : {std::pair<int, double>{1, 23.803}, {2, 15.19}, {4, 10.89}, {8, 8.74}}) {
    const Plan plan = find_strategy("tp").plan(dev, MeshShape({{Axis::tp, tp}}));
    int64_t elements = 0;
    for (const auto& [name, slice] : rank_slices(dev, plan, tp, tp - 1)) elements += slice_elements(slice, dev.parameters.at(name));
    EXPECT_NEAR(static_cast<double>(elements) * 2 / 1e9, gigabytes, 0.006) << tp;
  }
}

}  // namespace
}  // namespace shardproof
