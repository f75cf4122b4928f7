#pragma once

#include <string>
#include <vector>

namespace shardproof {

/// Strategies that a fault befalls alike.
inline const std::vector<std::string> ring_like{"ring", "ring_p2p", "ring_anything", "unified", "unified_anything"};
inline const std::vector<std::string> ring_gathering{"ring", "ring_anything", "unified", "unified_anything"};
inline const std::vector<std::string> ulysses_like{"ulysses", "ulysses_anything", "unified", "unified_anything", "tp+ulysses"};
inline const std::vector<std::string> context_parallel{"ulysses",          "ring",          "ring_p2p",         "unified",
                                                       "ulysses_anything", "ring_anything", "unified_anything", "tp+ulysses"};
inline const std::vector<std::string> anything{"ulysses_anything", "ring_anything", "unified_anything"};
/// Whose ranks gather, or exchange, with all of a group at once.
inline const std::vector<std::string> not_ring_p2p{
    "ulysses", "ring", "unified", "ulysses_anything", "ring_anything", "unified_anything", "tp+ulysses"};

}  // namespace shardproof
