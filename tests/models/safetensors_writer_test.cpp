#include "models/safetensors_writer.hpp"

#include "models/safetensors.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temp_dir.hpp"

namespace shardproof {
namespace {

const std::map<std::string, TensorInfo> infos{{"a", {at::kBFloat16, {3, 2}}}, {"b.bias", {at::kDouble, {5}}}, {"c", {at::kFloat, {0, 4}}}};

TEST(SafetensorsWriter, WritesWhatIsReadBack) {
  const test::TempDir folder;
  const Tensor a = at::arange(6, at::kFloat).view({2, 3}).t().to(at::kBFloat16), b = at::arange(5, at::kDouble) + 0.5;  // a is not contiguous
  {
    SafetensorsWriter writer(folder / "w.safetensors", infos, {{"format", "pt"}});
    writer.write("b.bias", b);  // in any order
    writer.write("a", a);
    writer.write("c", at::zeros({0, 4}));
    writer.finish();
  }
  SafetensorsFile file(folder / "w.safetensors");
  EXPECT_TRUE(at::equal(file.read("a"), a));
  EXPECT_TRUE(at::equal(file.read("b.bias"), b));
  EXPECT_EQ(file.tensors(), infos);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(SafetensorsWriter, LeavesNothingBehindUnlessFinished) {
  const test::TempDir folder;
  { SafetensorsWriter writer(folder / "w.safetensors", infos); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  test::expect_error(Fault::input, {"\"b.bias\"", "not written"}, [&] {
    SafetensorsWriter writer(folder / "w.safetensors", infos);
    writer.write("a", at::zeros({3, 2}, at::kBFloat16));
    writer.finish();
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  test::expect_error(Fault::runtime, {"absent"}, [&] { SafetensorsWriter writer(folder / "absent" / "w.safetensors", infos); });
}

TEST(SafetensorsWriter, RefusesWhatWasNotAnnounced) {
  const test::TempDir folder;
  SafetensorsWriter writer(folder / "w.safetensors", infos);
  test::expect_error(Fault::input, {"\"x\""}, [&] { writer.write("x", at::zeros({1})); });
  test::expect_error(Fault::input, {"\"a\"", "[2, 3]", "[3, 2]"}, [&] { writer.write("a", at::zeros({2, 3}, at::kBFloat16)); });
  test::expect_error(Fault::input, {"\"a\"", "fp32", "bf16"}, [&] { writer.write("a", at::zeros({3, 2})); });
}

/// A checkpoint of real size that costs no disk: its data reads as zeros.
TEST(SafetensorsWriter, SparseFilesAreHoles) {
  const test::TempDir folder;
  const std::map<std::string, TensorInfo> large{{"w", {at::kBFloat16, {4096, 131072}}}};
  SafetensorsWriter writer(folder / "w.safetensors", large, {}, true);
  writer.finish();
  EXPECT_EQ(std::filesystem::file_size(folder / "w.safetensors"), writer.file_bytes());
  EXPECT_GT(writer.file_bytes(), uint64_t{1} << 30);
  SafetensorsFile file(folder / "w.safetensors");
  EXPECT_EQ(file.read("w", {0, {{4095, 1}}}).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace shardproof
