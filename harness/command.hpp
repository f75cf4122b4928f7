#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace shardproof {

/// Exit statuses (docs/architecture.md).
namespace exit_status {
constexpr int passed = 0, not_passed = 1, bad_input = 2, missing = 3;
}

/// What the program was started with, for records.
struct Invocation {
  int argc;
  const char* const* argv;
};

/// Each command adds itself to the command line and leaves what to run in `run`; `run` returns the exit status.
using Run = std::function<int()>;
void add_verify(CLI::App& app, const Invocation& invocation, Run& run);
void add_selftest(CLI::App& app, const Invocation& invocation, Run& run);
void add_list(CLI::App& app, Run& run);
void add_plan(CLI::App& app, Run& run);
void add_load_bench(CLI::App& app, const Invocation& invocation, Run& run);

}  // namespace shardproof
