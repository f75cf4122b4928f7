#pragma once

#include "core/tensor.hpp"

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace shardproof {

/// The most bytes of keys and values that a rank's attention holds at once: its own, and those of other ranks as they
/// are sent or received. It watches storages without keeping them alive, so a chunk that is kept too long shows.
class KeyValueMeter {
 public:
  /// Says that a tensor of keys, values or both exists now. Views of one storage count once, with its whole size.
  void watch(const Tensor& keys_or_values);

  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> alive_;
  int64_t peak_bytes_ = 0;
};

}  // namespace shardproof
