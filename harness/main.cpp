#include "core/error.hpp"
#include "harness/command.hpp"
#include "harness/version.hpp"

#include <fmt/core.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace shardproof {
namespace {

int status_of(Fault fault) {
  switch (fault) {
    case Fault::input: return exit_status::bad_input;
    case Fault::missing: return exit_status::missing;
    case Fault::runtime: break;
  }
  return exit_status::not_passed;
}

int main_with_errors(int argc, char** argv) {
  CLI::App app{
      "shardproof proves that a distributed run of a diffusion transformer computes what one device computes,\n"
      "and says what it costs. Start with:\n\n"
      "  shardproof verify --model flux1-tiny --strategies all --ranks 4\n"};
  app.set_version_flag("--version", std::string("shardproof ") + version::shardproof);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("[usage] {}; see shardproof --help\n", error.what());
  });
  Run run;
  const Invocation invocation{argc, argv};
  add_verify(app, invocation, run);
  add_selftest(app, invocation, run);
  add_list(app, run);
  add_plan(app, run);
  add_load_bench(app, invocation, run);
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_status::passed : exit_status::bad_input;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return status_of(error.fault());
  } catch (const std::exception& error) {
    fmt::print(stderr, "[shardproof] {}\n", error.what());
    return exit_status::not_passed;
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  // libgomp reads its settings when it is loaded. Waiting threads that spin, or are pinned, cost more than they bring here:
  // many small kernels, often on shared machines. What the user has set stays.
  if (!std::getenv("OMP_WAIT_POLICY") || !std::getenv("OMP_PROC_BIND")) {
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("OMP_PROC_BIND", "false", 0);
    execv("/proc/self/exe", argv);  // returns only if it failed; then the defaults must do
  }
  return shardproof::main_with_errors(argc, argv);
}
