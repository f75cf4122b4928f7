#pragma once

#include "models/weight_source.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardproof {

/// Weights made from a seed, for presets: each tensor depends on (seed, name, shape) alone, and a slice is the slice of
/// the whole. From z = seeded_normal(shape, seed, name), in fp64, then rounded to the dtype:
///   two dimensions and more   z / sqrt(fan in), fan in = elements / shape[0]
///   one, name ends in .bias   0.1 z
///   one, any other name       1 + 0.2 z (norm weights)
class SyntheticWeights : public WeightSource {
 public:
  SyntheticWeights(const std::map<std::string, std::vector<int64_t>>& shapes, uint64_t seed, at::ScalarType dtype);

  std::vector<std::string> names() const override;
  const TensorInfo* find(const std::string& name) const override;
  Tensor read(const std::string& name, const Slice& slice = {}) override;
  int64_t bytes_read() const override { return bytes_read_; }
  /// Over seed, dtype, names and shapes, which decide every value.
  std::string hash() const override;

 private:
  std::map<std::string, TensorInfo> tensors_;
  uint64_t seed_;
  at::ScalarType dtype_;
  int64_t bytes_read_ = 0;
};

}  // namespace shardproof
