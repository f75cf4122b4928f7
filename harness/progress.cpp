#include "harness/progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace shardproof {

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::operator()(const std::string& what) {
  if (!terminal_) return;
  fmt::print(stderr, "\r{:<{}}", what, width_);
  std::fflush(stderr);
  width_ = std::max(width_, what.size());
}

void Progress::clear() {
  if (!terminal_ || width_ == 0) return;
  fmt::print(stderr, "\r{:<{}}\r", "", width_);
  std::fflush(stderr);
  width_ = 0;
}

}  // namespace shardproof
