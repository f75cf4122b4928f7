#pragma once

#include <cstdlib>
#include <filesystem>

namespace shardproof::test {

/// The sources' folder; set by CTest, else the working directory.
inline std::filesystem::path source_dir() {
  const char* folder = std::getenv("SHARDPROOF_SOURCE_DIR");
  return folder ? folder : std::filesystem::current_path();
}

/// The committed diffusers checkpoint with its outputs.
inline std::filesystem::path oracle_checkpoint() { return source_dir() / "tests/data/flux1-oracle"; }

}  // namespace shardproof::test
