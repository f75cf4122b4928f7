#include "core/error.hpp"

#include <algorithm>

namespace shardproof {
namespace {

/// Errors promise one line; texts from libraries may bring several.
std::string single_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Error::Error(Fault fault, std::string_view subsystem, std::string_view message)
    : std::runtime_error(single_line(fmt::format("[{}] {}", subsystem, message))), fault_(fault) {}

}  // namespace shardproof
