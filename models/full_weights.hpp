#pragma once

#include "models/weight_source.hpp"

#include <map>
#include <memory>

namespace shardproof {

/// A model that is loaded whole before a strategy is applied to it: every tensor is read and cast at once, and slices are
/// cut from memory. (`sharded` loading reads slices only; both give the same bits.)
class FullWeights final : public WeightSource {
 public:
  /// Reads all of `source`. Floating-point tensors are cast to `dtype`, or with `Undefined` stay as they are.
  FullWeights(WeightSource& source, at::ScalarType dtype);

  std::vector<std::string> names() const override;
  const TensorInfo* find(const std::string& name) const override;
  Tensor read(const std::string& name, const Slice& slice = {}) override;
  int64_t bytes_read() const override { return bytes_read_; }
  std::string hash() const override { return hash_; }

  /// Lets go of a tensor that is not read again.
  void release(const std::string& name) { tensors_.erase(name); }

 private:
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, TensorInfo> infos_;
  int64_t bytes_read_ = 0;
  std::string hash_;
};

}  // namespace shardproof
