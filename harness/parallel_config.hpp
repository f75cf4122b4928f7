#pragma once

#include "core/json.hpp"
#include "harness/verify.hpp"

#include <filesystem>

namespace shardproof {

/// A strategy and mesh from diffusers' own configuration: a JSON object with the fields of ContextParallelConfig
/// (`ring_degree`, `ulysses_degree`, `convert_to_fp32`, `rotate_method`, `ulysses_anything`, `ring_anything`, `mesh`) and of
/// TensorParallelConfig (`tp_degree`, `mesh`), flat or under `context_parallel_config` and `tensor_parallel_config`. `mesh` is
/// an object of degrees by axis; axes of size 1 are allowed. What diffusers refuses for being exclusive is a product here:
/// both degrees with an "anything" flag is unified_anything, a tp_degree with context parallelism is tp × that.
/// Input Error that names the field and what would be accepted; unlike diffusers' the degrees' product must be `ranks`.
Candidate parse_parallel_config(const Json& json, const std::string& source, int ranks);

}  // namespace shardproof
