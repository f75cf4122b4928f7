#pragma once

#include "core/named_tensors.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// The input families of a parity case. Uniform inputs hide a plain average, a wrong log base and an unmasked pad token.
///   randn            standard normal
///   structured       keys scaled along the tokens from 0.3 to 2, values offset from -1 to 1, queries times 1.5
///   negative_logits  structured, then queries + 0.7 and keys - 0.7
const std::vector<std::string>& input_families();

/// A comma-separated list of families. Unknown names: input Error that lists them.
std::vector<std::string> parse_families(const std::string& list);

/// Standard normal values [B, sizes…], one stream of numbers per prompt: a prompt has the same ones in any batch.
Tensor normal_per_prompt(int64_t batch, at::IntArrayRef sizes, uint64_t seed, const std::string& name);

/// 0.5, 0.25, 0.125, 1, …, [B]: every dtype holds sigma and 1000 sigma exactly, so that rounding them is not what is measured.
Tensor exact_timesteps(int64_t batch);

/// Row and column of each token of an image, [2, height · width], rows first.
Tensor grid_positions(int64_t height, int64_t width);

/// Token activations [B, S, C] of a family: scaled and offset along the tokens unless `randn`.
Tensor shaped_tokens(const Tensor& normal_BSC, const std::string& family);

/// A key-padding mask over text, bool [B, T], true = attend: prompt p ends in padding after a length of its own, and the
/// first is the longest.
Tensor padded_mask(int64_t batch, int64_t text_tokens);

/// q, k, v [B, S, H, D] of a family for attention alone, fp64, seeded by name.
NamedTensors attention_inputs(at::IntArrayRef q_shape, at::IntArrayRef kv_shape, const std::string& family, uint64_t seed,
                              const std::string& name);

}  // namespace shardproof
