#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace shardproof {

/// What this process holds of the machine's memory, in bytes. Anonymous pages are the process's own; file-backed ones are
/// the page cache's, mapped (libraries, memory-mapped files), and can be dropped.
struct HostMemory {
  int64_t anonymous = 0, file = 0;
};
HostMemory host_memory();

/// The kernel's own mark of the most this process has held, of both kinds together.
int64_t host_peak();

/// Bytes that can be had without swapping; the largest number where the kernel does not say.
int64_t available_memory();

/// The most anonymous and file-backed memory while it lives, sampled every millisecond: the kernel keeps no marks of each.
class HostPeakSampler {
 public:
  HostPeakSampler();
  ~HostPeakSampler();
  HostPeakSampler(const HostPeakSampler&) = delete;
  HostPeakSampler& operator=(const HostPeakSampler&) = delete;
  /// Stops sampling; both peaks.
  HostMemory stop();

 private:
  void sample();
  std::atomic<bool> running_{true};
  std::atomic<int64_t> anonymous_{0}, file_{0};
  std::thread thread_;
};

}  // namespace shardproof
