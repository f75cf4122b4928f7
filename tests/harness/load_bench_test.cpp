#include "harness/host_memory.hpp"
#include "harness/load_rank.hpp"
#include "harness/preset_checkpoint.hpp"
#include "models/checkpoint.hpp"
#include "models/synthetic_weights.hpp"
#include "strategies/tp.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temp_dir.hpp"

namespace shardproof {
namespace {

TEST(PresetCheckpoint, IsAFolderThatLoads) {
  const test::TempDir folder;
  write_preset_checkpoint(model_preset("flux1-tiny"), folder.path(), 3, false);
  Checkpoint checkpoint(folder.path());
  EXPECT_EQ(parse_model_config(checkpoint.config(), "config.json"), model_preset("flux1-tiny"));
  SyntheticWeights drawn(std::map<std::string, std::vector<int64_t>>{{"x_embedder.weight", {144, 16}}}, 3, at::kBFloat16);
  EXPECT_TRUE(at::equal(checkpoint.read("x_embedder.weight"), drawn.read("x_embedder.weight")));
}

/// The real FLUX.2 on disk at no cost: 64.4 GB in files of at most 5 GB with an index, all holes.
TEST(PresetCheckpoint, SparseOnesHaveTheRealSize) {
  const test::TempDir folder;
  const ModelConfig config = model_preset("flux2-dev");
  write_preset_checkpoint(config, folder.path(), 0, true);
  EXPECT_EQ(bf16_bytes(config), int64_t{32'223'281'152} * 2);
  uint64_t bytes = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".safetensors") continue;
    bytes += entry.file_size();
    ++files;
    EXPECT_LE(entry.file_size(), uint64_t{5'001'000'000});
  }
  EXPECT_GE(bytes, static_cast<uint64_t>(bf16_bytes(config)));
  EXPECT_LE(bytes, static_cast<uint64_t>(bf16_bytes(config)) + 1'000'000);
  EXPECT_GE(files, 13u);
  EXPECT_LE(files, 15u);  // whole tensors only
  Checkpoint(folder.path()).names();
}

TEST(LoadRank, ShardedReadsTheShardAndFullReadsAll) {
  const test::TempDir folder;
  const ModelConfig config = model_preset("flux1-tiny");
  write_preset_checkpoint(config, folder.path(), 3, false);
  for (const int tp : {1, 2, 4}) {
    const LoadResult sharded = load_rank({folder.path(), tp, tp - 1, false}), full = load_rank({folder.path(), tp, tp - 1, true});
    EXPECT_EQ(sharded.bytes_read, sharded.expected);
    EXPECT_EQ(full.bytes_read, bf16_bytes(config));
    for (const LoadResult& result : {sharded, full}) EXPECT_EQ(result.held, result.expected) << tp;
    EXPECT_LE(sharded.allocated_peak, sharded.expected);  // no full tensor ever exists
    EXPECT_GE(full.allocated_peak, bf16_bytes(config));
    EXPECT_EQ(sharded.expected == bf16_bytes(config), tp == 1);
  }
  test::expect_error(Fault::input, {"24 heads", "tp 5"}, [&] { load_rank({folder.path(), 5, 0, false}); });
}

TEST(LoadRank, ReadsBackItsOwnReport) {
  LoadResult result{1.5, 2, 3, 4, 5, 6, 7, 8, 9};
  const LoadResult again = parse_load_result(to_json(result));
  EXPECT_EQ(to_json(again), to_json(result));
}

TEST(HostMemory, SeesWhatIsTouched) {
  const HostMemory before = host_memory();
  HostPeakSampler sampler;
  {
    const std::vector<char> touched(size_t{64} << 20, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_GE(sampler.stop().anonymous, before.anonymous + (int64_t{60} << 20));
  EXPECT_GE(host_peak(), before.anonymous + (int64_t{60} << 20));
  EXPECT_GT(available_memory(), 0);
}

}  // namespace
}  // namespace shardproof
