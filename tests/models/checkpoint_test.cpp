#include "models/checkpoint.hpp"

#include "tests/support/safetensors_writer.hpp"
#include "tests/support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardproof {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* single_name = "diffusion_pytorch_model.safetensors";
constexpr const char* index_name = "diffusion_pytorch_model.safetensors.index.json";
constexpr const char* file_a = "diffusion_pytorch_model-00001-of-00002.safetensors";
constexpr const char* file_b = "diffusion_pytorch_model-00002-of-00002.safetensors";

using Tensors = std::map<std::string, Tensor>;

void write_index(const test::TempDir& folder, const Json& weight_map) {
  test::write_file(folder / index_name, Json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}.dump());
}

/// Tensors a.weight and a.bias in the first file, b.weight in the second.
void write_sharded(const test::TempDir& folder) {
  test::write_file(folder / "config.json", R"({"_class_name": "Test"})");
  test::write_safetensors(folder / file_a, Tensors{{"a.weight", at::arange(32, at::kFloat).reshape({8, 4})},
                                                   {"a.bias", at::arange(8, at::kFloat) + 100}});
  test::write_safetensors(folder / file_b, Tensors{{"b.weight", at::arange(8, at::kBFloat16).reshape({2, 4}) + 200}});
  write_index(folder, {{"a.weight", file_a}, {"a.bias", file_a}, {"b.weight", file_b}});
}

void expect_refused(const test::TempDir& folder, const testing::Matcher<std::string>& message) {
  try {
    Checkpoint checkpoint(folder.path());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(std::string(error.what()), message);
  }
}

TEST(Checkpoint, ReadsASingleFile) {
  const test::TempDir folder;
  test::write_file(folder / "config.json", R"({"num_layers": 2})");
  test::write_safetensors(folder / single_name, Tensors{{"w", at::arange(6, at::kFloat).reshape({2, 3})}});
  Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.config().at("num_layers"), 2);
  EXPECT_EQ(checkpoint.names(), std::vector<std::string>{"w"});
  EXPECT_EQ(*checkpoint.find("w"), (TensorInfo{at::kFloat, {2, 3}}));
  EXPECT_EQ(checkpoint.find("v"), nullptr);
  EXPECT_TRUE(at::equal(checkpoint.read("w"), at::arange(6, at::kFloat).reshape({2, 3})));
  EXPECT_EQ(checkpoint.bytes_read(), 24);
  EXPECT_THROW(checkpoint.read("v"), Error);
}

TEST(Checkpoint, ReadsSlicesFromShardedFiles) {
  const test::TempDir folder;
  write_sharded(folder);
  Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a.bias", "a.weight", "b.weight"}));
  const Tensor rows = checkpoint.read("a.weight", {0, {{4, 4}}});
  EXPECT_TRUE(at::equal(rows, at::arange(16, 32, at::kFloat).reshape({4, 4})));
  EXPECT_EQ(rows.storage().nbytes(), 64);
  EXPECT_EQ(checkpoint.bytes_read(), 64);
  EXPECT_TRUE(
      at::equal(checkpoint.read("b.weight", {1, {{2, 2}}}), at::tensor({202, 203, 206, 207}).to(at::kBFloat16).reshape({2, 2})));
  EXPECT_EQ(checkpoint.bytes_read(), 64 + 8);
}

TEST(Checkpoint, RequireNamesTensorAndBothShapes) {
  const test::TempDir folder;
  write_sharded(folder);
  Checkpoint checkpoint(folder.path());
  EXPECT_EQ(require(checkpoint, "a.weight", {8, 4}).dtype, at::kFloat);
  EXPECT_THAT(
      [&] {
        require(checkpoint, "a.weight", {4, 8});
      },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("a.weight"), HasSubstr("[8, 4]"), HasSubstr("[4, 8]"))));
  EXPECT_THAT(
      [&] {
        require(checkpoint, "c.weight", {4, 8});
      },
      testing::ThrowsMessage<Error>(AllOf(HasSubstr("c.weight"), HasSubstr("missing"), HasSubstr("[4, 8]"))));
}

// sglang#32279, vllm#34859, mflux#603: an interrupted download must not load, whatever a plan needs of it.
TEST(CheckpointIndex, MissingFilesAreNamedBeforeAnythingIsRead) {
  const test::TempDir folder;
  write_sharded(folder);
  std::filesystem::remove(folder / file_b);
  test::write_file(folder / file_a, "not a safetensors file");  // would be the error if files were opened one by one
  expect_refused(folder, AllOf(HasSubstr("1 of 2 files"), HasSubstr(file_b), Not(HasSubstr(file_a))));
  std::filesystem::remove(folder / file_a);
  expect_refused(folder, AllOf(HasSubstr("2 of 2 files"), HasSubstr(file_a), HasSubstr(file_b)));
}

TEST(CheckpointIndex, TruncatedFileIsRefused) {
  const test::TempDir folder;
  write_sharded(folder);
  std::filesystem::resize_file(folder / file_b, std::filesystem::file_size(folder / file_b) - 1);
  expect_refused(folder, AllOf(HasSubstr(file_b), HasSubstr("b.weight"), HasSubstr("past the file")));
}

TEST(CheckpointIndex, TensorThatIsNotInItsFileIsNamed) {
  const test::TempDir folder;
  write_sharded(folder);
  write_index(folder, {{"a.weight", file_a}, {"a.bias", file_a}, {"b.weight", file_b}, {"b.bias", file_b}});
  expect_refused(folder, AllOf(HasSubstr(file_b), HasSubstr("lacks 1 tensors"), HasSubstr("\"b.bias\"")));
}

TEST(CheckpointIndex, TensorListedForTheWrongFileIsNamed) {
  const test::TempDir folder;
  write_sharded(folder);
  write_index(folder, {{"a.weight", file_a}, {"a.bias", file_b}, {"b.weight", file_b}});
  expect_refused(folder, AllOf(HasSubstr(file_a), HasSubstr("\"a.bias\"")));
}

TEST(CheckpointIndex, TensorThatTheIndexDoesNotListIsNamed) {
  const test::TempDir folder;
  write_sharded(folder);
  write_index(folder, {{"a.weight", file_a}, {"b.weight", file_b}});
  expect_refused(folder, AllOf(HasSubstr(file_a), HasSubstr("does not list"), HasSubstr("\"a.bias\"")));
}

TEST(CheckpointIndex, FileNamesOutsideTheFolderAreRefused) {
  for (const std::string name :
       {"../x.safetensors", "sub/x.safetensors", "/x.safetensors", "..", ".", "", "a\\x.safetensors", "x.bin"}) {
    const test::TempDir folder;
    write_sharded(folder);
    write_index(folder, {{"a.weight", name}});
    expect_refused(folder, AllOf(HasSubstr("weight_map"), HasSubstr("\"" + name + "\""), HasSubstr("accepted")));
  }
}

TEST(CheckpointIndex, MalformedIndexIsRefused) {
  const std::map<std::string, std::string> indices{
      {"", "not valid JSON"},
      {"[]", "weight_map"},
      {"{}", "weight_map"},
      {R"({"weight_map": {}})", "weight_map"},
      {R"({"weight_map": []})", "weight_map"},
      {R"({"weight_map": {"a.weight": 1}})", "a.weight"},
      {R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})", "appears twice"}};
  for (const auto& [text, message] : indices) {
    const test::TempDir folder;
    write_sharded(folder);
    test::write_file(folder / index_name, text);
    expect_refused(folder, AllOf(HasSubstr(index_name), HasSubstr(message)));
  }
}

TEST(CheckpointIndex, IsPreferredToASingleFile) {  // as diffusers 0.42.1 does
  const test::TempDir folder;
  write_sharded(folder);
  test::write_safetensors(folder / single_name, Tensors{{"only.here", at::zeros({1})}});
  EXPECT_EQ(Checkpoint(folder.path()).find("only.here"), nullptr);
  std::filesystem::remove(folder / index_name);
  EXPECT_NE(Checkpoint(folder.path()).find("only.here"), nullptr);
}

TEST(Checkpoint, WhatIsNotACheckpointIsSaid) {
  const test::TempDir folder;
  EXPECT_THAT([&] { Checkpoint c(folder / "absent"); }, testing::ThrowsMessage<Error>(HasSubstr("no such folder")));
  expect_refused(folder, HasSubstr("no config.json"));
  test::write_file(folder / "model_index.json", "{}");
  expect_refused(folder, AllOf(HasSubstr("pipeline folder"), HasSubstr("transformer")));
  test::write_file(folder / "config.json", "[]");
  EXPECT_THAT([&] { Checkpoint c(folder / "config.json"); }, testing::ThrowsMessage<Error>(HasSubstr("is not a folder")));
  expect_refused(folder, HasSubstr("not a JSON object"));
  test::write_file(folder / "config.json", "{}");
  expect_refused(folder, AllOf(HasSubstr(single_name), HasSubstr(index_name), HasSubstr("no weight files")));
  test::write_file(folder / "diffusion_pytorch_model.bin", "x");
  test::write_file(folder / "diffusion_pytorch_model.fp16.safetensors", "x");
  expect_refused(folder, AllOf(HasSubstr("found: diffusion_pytorch_model.bin, diffusion_pytorch_model.fp16.safetensors"),
                               HasSubstr("only safetensors")));
  std::filesystem::create_directory(folder / single_name);
  expect_refused(folder, HasSubstr("is there"));
}

/// What diffusers refuses with tensor parallelism, or would quietly leave unused: never a silent fallback.
TEST(Checkpoint, RefusesWeightsThatAreNotPlain) {
  for (const auto& [file, words] : {std::pair<const char*, std::vector<std::string>>{"adapter_config.json", {"LoRA", "adapter_config.json", "fused"}},
                                    {"pytorch_lora_weights.safetensors", {"LoRA", "pytorch_lora_weights"}},
                                    {"tp-0-of-4.safetensors", {"tp-0-of-4", "sharded again", "gathered"}},
                                    {"model.flashpack", {"flashpack", "safetensors"}}}) {
    const test::TempDir folder;
    write_sharded(folder);
    test::write_file(folder / file, "{}");
    for (const auto& word : words) expect_refused(folder, HasSubstr(word));
  }
  const test::TempDir folder;
  test::write_file(folder / "config.json", "{}");
  test::write_safetensors(folder / single_name, Tensors{{"blocks.0.to_q.lora_A.weight", at::zeros({1})}});
  expect_refused(folder, AllOf(HasSubstr("lora_A"), HasSubstr("fused")));
}

TEST(Checkpoint, HashTellsWeightsApartAndIgnoresTheConfiguration) {
  const test::TempDir folder;
  write_sharded(folder);
  const std::string before = Checkpoint(folder.path()).hash();
  EXPECT_THAT(before, testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(Checkpoint(folder.path()).hash(), before);
  test::write_file(folder / "config.json", "{}");
  EXPECT_EQ(Checkpoint(folder.path()).hash(), before);
  test::write_safetensors(folder / file_b, Tensors{{"b.weight", at::arange(8, at::kBFloat16).reshape({2, 4}) + 201}});
  EXPECT_NE(Checkpoint(folder.path()).hash(), before);
}

}  // namespace
}  // namespace shardproof
