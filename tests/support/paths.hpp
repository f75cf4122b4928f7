#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace shardproof::test {

/// The sources' folder; set by CTest, else the working directory.
inline std::filesystem::path source_dir() {
  const char* folder = std::getenv("SHARDPROOF_SOURCE_DIR");
  return folder ? folder : std::filesystem::current_path();
}

/// A family's committed diffusers checkpoint with its outputs: flux1, flux2, qwen-image.
inline std::filesystem::path oracle_checkpoint(const std::string& family = "flux1") {
  return source_dir() / "tests/data" / (family + "-oracle");
}

}  // namespace shardproof::test
