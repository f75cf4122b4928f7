#include "harness/environment.hpp"

#include "harness/version.hpp"

#include <ATen/Parallel.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

namespace shardproof {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

/// The program's own name without its folder: records tell nothing of where a machine keeps its files.
std::string joined(int argc, const char* const* argv) {
  std::string text = "shardproof";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

}  // namespace

Environment describe_environment(int argc, const char* const* argv) {
  return {{{"shardproof", version::shardproof}, {"torch", version::torch}, {"kokkos", version::kokkos}, {"compiler", version::compiler}},
          {{"cpu", cpu_name()}, {"cores", std::thread::hardware_concurrency()}},
          version::commit,
          at::get_num_threads(),
          utc_now(),
          joined(argc, argv)};
}

}  // namespace shardproof
