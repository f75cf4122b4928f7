#pragma once

#include "core/model_config.hpp"

#include <filesystem>

namespace shardproof {

/// Writes a preset as a diffusers folder of bf16 weights (config.json, files of at most 5 GB, the index): drawn from the seed,
/// or `sparse`, files of the real size whose data is a hole, zeros that cost no disk. The folder must exist.
/// Missing Error with the numbers when the disk cannot hold drawn weights.
void write_preset_checkpoint(const ModelConfig& config, const std::filesystem::path& folder, uint64_t seed, bool sparse);

/// Bytes of all parameters in bf16.
int64_t bf16_bytes(const ModelConfig& config);

}  // namespace shardproof
