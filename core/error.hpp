#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof {

/// Why something could not be done; it decides the process's exit status (see docs/architecture.md).
enum class Fault {
  input,    ///< bad usage or bad input: exit 2, nothing written
  missing,  ///< this machine lacks something asked for: exit 3
  runtime,  ///< something broke while running: an `error` row, exit 1
};

/// The one error type. `what()` is a single line, "[subsystem] what is wrong; what would be accepted".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, std::string_view subsystem, std::string_view message);
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

/// Throws an input Error: `fail_input("ulysses", "{} heads are not divisible by {}", h, u)`.
template <class... Args>
[[noreturn]] void fail_input(std::string_view subsystem, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Fault::input, subsystem, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail_missing(std::string_view subsystem, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Fault::missing, subsystem, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail_runtime(std::string_view subsystem, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Fault::runtime, subsystem, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace shardproof
