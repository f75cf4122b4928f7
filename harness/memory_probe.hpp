#pragma once

#include <cstdint>

namespace shardproof {

/// Counts the CPU memory of tensors, live and peak, per owner (a virtual rank; -1 is everything else).
///
/// While a probe lives, LibTorch's CPU allocator is wrapped: bytes asked for are charged to the owner set at
/// that moment, on any thread (OpenMP workers allocate on behalf of the rank that runs), and are given back to
/// the owner that allocated them, whoever frees them. Storages from before the probe are not counted; storages
/// that outlive it are freed as usual. One probe at a time, as the allocator is the process's: a second one
/// throws an input Error. Bytes are those asked for; what the default allocator adds is not seen.
class MemoryProbe {
 public:
  MemoryProbe();
  ~MemoryProbe();
  MemoryProbe(const MemoryProbe&) = delete;
  MemoryProbe& operator=(const MemoryProbe&) = delete;

  /// Who pays from now on; at first -1. Cheap: meant for LocalOptions::on_switch.
  void set_owner(int owner);

  int64_t live(int owner) const;  ///< bytes held now; 0 for an owner never seen
  int64_t peak(int owner) const;  ///< the most bytes held at once since the probe or reset_peak()
  int64_t live() const;           ///< of all owners together
  int64_t peak() const;           ///< of all owners together: not the sum of their peaks
  /// Every peak becomes what is live now.
  void reset_peak();
};

}  // namespace shardproof
