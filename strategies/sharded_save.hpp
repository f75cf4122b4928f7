#pragma once

#include "core/json.hpp"
#include "models/checkpoint.hpp"
#include "strategies/session.hpp"

#include <filesystem>
#include <memory>

namespace shardproof {

/// Saves the weights of a running session as a folder that diffusers and this project load: config.json and one
/// diffusion_pytorch_model.safetensors. Collective over the world: one parameter after the other is gathered over the tp axis
/// and written by rank 0, so that no rank holds more than one whole tensor beside its shard. Tensors have the session's dtype;
/// where that is the original's, their bytes are the original's.
/// Input Error, on every rank and before anything is gathered, when the folder cannot be made or already has weights.
void save_gathered(const Session& session, const Json& config, const std::filesystem::path& folder);

/// Saves this rank's slices as `tp-<rank>-of-<size>.safetensors` in the folder, with what they are slices of in the metadata.
/// Ranks that differ on other axes hold the same: those at coordinate 0 write. Collective over the world.
void save_shards(const Session& session, const Json& config, const std::filesystem::path& folder);

/// What one rank of `tp` saved, as a source that serves exactly those slices. Input Error that names both degrees when the
/// folder was saved at another one, and the tensor when another slice of it is asked for (another plan).
std::unique_ptr<WeightSource> open_shard(const std::filesystem::path& folder, int tp, int tp_rank);

}  // namespace shardproof
