#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// All strategies, in the order of tables: the one explicit list.
const std::vector<const Strategy*>& all_strategies();

/// By name. Unknown: input Error that lists the names.
const Strategy& find_strategy(std::string_view name);

/// A comma-separated list, or "all".
std::vector<const Strategy*> parse_strategies(std::string_view list);

}  // namespace shardproof
