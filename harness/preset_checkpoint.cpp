#include "harness/preset_checkpoint.hpp"

#include "harness/planned_model.hpp"
#include "harness/records.hpp"
#include "models/safetensors_writer.hpp"
#include "models/synthetic_weights.hpp"

#include <numeric>

namespace shardproof {
namespace {

constexpr int64_t file_limit = 5'000'000'000;  // as diffusers cuts its files

int64_t bytes_of(const std::vector<int64_t>& shape) { return std::accumulate(shape.begin(), shape.end(), int64_t{2}, std::multiplies<>()); }

using File = std::map<std::string, TensorInfo>;

/// Parameters in name order, file after file.
std::vector<File> cut_into_files(const std::map<std::string, std::vector<int64_t>>& parameters) {
  std::vector<File> files(1);
  int64_t filled = 0;
  for (const auto& [name, shape] : parameters) {
    if (filled > 0 && filled + bytes_of(shape) > file_limit) {
      files.emplace_back();
      filled = 0;
    }
    filled += bytes_of(shape);
    files.back()[name] = {at::kBFloat16, shape};
  }
  return files;
}

void check_disk(const std::filesystem::path& folder, int64_t bytes) {
  const auto free = static_cast<int64_t>(std::filesystem::space(folder).available);
  if (bytes > free)
    fail_missing("disk", "{} needs {:.2f} GB, {:.2f} GB are free; accepted: --work with a folder on a larger disk, or --sparse", folder.string(),
                 static_cast<double>(bytes) / 1e9, static_cast<double>(free) / 1e9);
}

}  // namespace

int64_t bf16_bytes(const ModelConfig& config) {
  return 2 * parameter_count(model_traits(config));
}

void write_preset_checkpoint(const ModelConfig& config, const std::filesystem::path& folder, uint64_t seed, bool sparse) {
  if (!sparse) check_disk(folder, bf16_bytes(config));
  const auto parameters = model_traits(config).parameters;
  SyntheticWeights weights(parameters, seed, at::kBFloat16);
  const auto files = cut_into_files(parameters);
  Json index{{"metadata", {{"total_size", bf16_bytes(config)}}}, {"weight_map", Json::object()}};
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = files.size() == 1 ? "diffusion_pytorch_model.safetensors"
                                               : fmt::format("diffusion_pytorch_model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    SafetensorsWriter writer(folder / name, files[i], {{"format", "pt"}}, sparse);
    for (const auto& [tensor, info] : files[i]) {
      index["weight_map"][tensor] = name;
      if (!sparse) writer.write(tensor, weights.read(tensor));
    }
    writer.finish();
  }
  if (files.size() > 1) write_file(folder / "diffusion_pytorch_model.safetensors.index.json", index.dump());
  write_file(folder / "config.json", std::visit([](const auto& c) { return to_json(c); }, config).dump(2));
}

}  // namespace shardproof
