#pragma once

#include "core/dataflow.hpp"
#include "strategies/layout_flow.hpp"

#include <optional>

namespace shardproof {

/// The shardings nearest to the given ones under which `follow_layouts` finds nothing: fewest entries changed, then most
/// weights sharded, then fewest all-reduces. Every answer has been followed through the region and found right.
/// Nothing when none was found, or when nothing is wrong.
std::optional<Shardings> repaired(const Region& region, const Shardings& shardings);

/// The finest blocks in which the region cuts what a Linear makes: [h, h, h, m, m] where it is split in [3h, 2m], and those
/// in [h, h, h] and [m, m]. One block: not cut at all.
std::vector<int64_t> output_blocks(const Region& region, const std::string& module);

/// The blocks that the region joins to make a Linear's input. One block: not joined.
std::vector<int64_t> input_blocks(const Region& region, const std::string& module);

}  // namespace shardproof
