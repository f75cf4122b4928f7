#pragma once

#include "harness/verify.hpp"

#include <optional>
#include <string>

namespace shardproof {

/// Strategies with their meshes from the command line: `list` is "all" or names, each with its degrees in brackets if any
/// ("tp+ulysses[tp=2,ulysses=4]"). A strategy with one axis uses all `ranks`; `mesh` ("tp=2,ulysses=4") applies to the
/// strategies that have exactly its axes. `single` runs on one rank. Input Error on unknown names, axes that are not the
/// strategy's, and a mesh whose product is not `ranks`.
std::vector<Candidate> parse_candidates(const std::string& list, int ranks, const std::optional<std::string>& mesh);

}  // namespace shardproof
