#pragma once

#include "core/json.hpp"
#include "core/tensor.hpp"

#include <filesystem>
#include <string>

namespace shardproof {

/// One rank's load of a checkpoint by the model's shipped plan, as a process of its own measures it.
struct LoadRequest {
  std::filesystem::path folder;
  int tp = 1, tp_rank = 0;
  bool full = false;  ///< read everything, then shard; otherwise this rank's slices alone are read
};

/// Everything is in bytes unless it says seconds.
struct LoadResult {
  double seconds = 0;                 ///< opening, reading, cutting; not the start of the process
  int64_t bytes_read = 0, held = 0;   ///< requested from files; in tensors afterwards
  int64_t expected = 0;               ///< what the plan says this rank holds
  int64_t allocated_peak = 0;         ///< LibTorch's allocator
  int64_t anonymous_before = 0, anonymous_peak = 0, file_peak = 0, host_peak = 0;
};

/// Loads in this process. Input Error as for any checkpoint; also when the plan's Linears are missing or do not divide.
LoadResult load_rank(const LoadRequest& request);

Json to_json(const LoadResult& result);
LoadResult parse_load_result(const Json& json);

/// `load_rank` in a new process of this program, so that peaks are of this load alone. Runtime Error with what the process
/// said when it failed.
LoadResult load_rank_apart(const LoadRequest& request);

}  // namespace shardproof
