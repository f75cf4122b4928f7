#include "harness/host_memory.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace shardproof {
namespace {

/// "RssAnon:    1234 kB" of a file of such lines; 0 where there is none.
int64_t field(const char* file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return 0;
}

}  // namespace

HostMemory host_memory() { return {field("/proc/self/status", "RssAnon"), field("/proc/self/status", "RssFile")}; }

int64_t host_peak() { return field("/proc/self/status", "VmHWM"); }

int64_t available_memory() {
  const int64_t bytes = field("/proc/meminfo", "MemAvailable");
  return bytes > 0 ? bytes : INT64_MAX;
}

HostPeakSampler::HostPeakSampler()
    : thread_([this] {
        while (running_) {
          sample();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }) {}

void HostPeakSampler::sample() {
  const HostMemory now = host_memory();
  anonymous_ = std::max<int64_t>(anonymous_, now.anonymous);
  file_ = std::max<int64_t>(file_, now.file);
}

HostMemory HostPeakSampler::stop() {
  running_ = false;
  if (thread_.joinable()) thread_.join();
  sample();
  return {anonymous_, file_};
}

HostPeakSampler::~HostPeakSampler() { stop(); }

}  // namespace shardproof
