#pragma once

#include "core/json.hpp"

#include <string>

namespace shardproof {

/// What a record says of where it was made.
struct Environment {
  Json versions;  ///< shardproof, torch, kokkos, compiler
  Json machine;   ///< cpu, cores
  std::string commit;
  int threads;
  std::string started;  ///< UTC, ISO 8601
  std::string command_line;
};

/// `command_line`: the program's arguments, joined. The commit is the one the sources were configured at.
Environment describe_environment(int argc, const char* const* argv);

}  // namespace shardproof
