#pragma once

#include "core/json.hpp"
#include "models/safetensors.hpp"
#include "models/weight_source.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardproof {

/// A model folder as diffusers saves it: config.json, and either diffusion_pytorch_model.safetensors or
/// diffusion_pytorch_model.safetensors.index.json with its files. With both, the index is used, as in diffusers 0.42.1
/// (`from_pretrained` looks for the index first). Opening checks everything that needs no tensor data: every file that
/// the index names is there, every tensor is in the file that the index names for it, and no file holds more.
/// Variants (".fp16.") and .bin files are refused with the names that are looked for.
class Checkpoint : public WeightSource {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// config.json, an object.
  const Json& config() const { return config_; }
  /// For messages: config.json's path.
  std::string config_source() const;

  std::vector<std::string> names() const override;
  const TensorInfo* find(const std::string& name) const override;
  Tensor read(const std::string& name, const Slice& slice = {}) override;
  int64_t bytes_read() const override;
  /// Over the weight files in name order (SafetensorsFile::hash), not over config.json; computed once.
  std::string hash() const override;

 private:
  void open_single(const std::filesystem::path& file);
  void open_sharded(const std::filesystem::path& index);

  std::filesystem::path folder_;
  Json config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> owner_;  ///< by tensor name
  mutable std::string hash_;
};

}  // namespace shardproof
