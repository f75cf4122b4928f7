#pragma once

#include "harness/verify.hpp"

#include <functional>
#include <optional>
#include <string>

namespace shardproof {

/// Strategies with their meshes from the command line: `list` is "all" or names, each with its degrees in brackets if any
/// ("tp+ulysses[tp=2,ulysses=4]"). A strategy with one axis uses all `ranks`; `mesh` ("tp=2,ulysses=4") applies to the
/// strategies that have exactly its axes; a product with neither gets the most square mesh that `legal` allows (and, where it
/// allows none, the most square one). `single` runs on one rank. Input Error on unknown names, axes that are not the
/// strategy's, and a mesh whose product is not `ranks`.
using Legal = std::function<bool(const Strategy&, const MeshShape&)>;
std::vector<Candidate> parse_candidates(const std::string& list, int ranks, const std::optional<std::string>& mesh,
                                        const Legal& legal = [](const Strategy&, const MeshShape&) { return true; });

}  // namespace shardproof
