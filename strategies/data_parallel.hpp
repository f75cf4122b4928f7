#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// Whole prompts over replicas: rank r runs its share of the batch, prompt by prompt, and every rank gets all results.
/// Shares differ by at most one; a rank without prompts joins the gather all the same. (accelerate, split_between_processes)
const Strategy& data_parallel();

}  // namespace shardproof
