#pragma once

#include "models/weight_source.hpp"

#include <map>
#include <memory>

namespace shardproof {

/// Lets virtual ranks share one copy of what they all hold: the same slice of the same tensor is read once. Its tensors
/// are not the only owners of their storage and must not be written to.
class SharedWeights final : public WeightSource {
 public:
  explicit SharedWeights(std::shared_ptr<WeightSource> inner) : inner_(std::move(inner)) {}
  std::vector<std::string> names() const override { return inner_->names(); }
  const TensorInfo* find(const std::string& name) const override { return inner_->find(name); }
  int64_t bytes_read() const override { return inner_->bytes_read(); }
  std::string hash() const override { return inner_->hash(); }

  Tensor read(const std::string& name, const Slice& slice) override {
    std::vector<int64_t> key{slice.dim};
    for (const Range& range : slice.ranges) key.insert(key.end(), {range.begin, range.size});
    auto [found, added] = read_.try_emplace({name, key});
    if (added) found->second = inner_->read(name, slice);
    return found->second;
  }

 private:
  std::shared_ptr<WeightSource> inner_;
  std::map<std::pair<std::string, std::vector<int64_t>>, Tensor> read_;
};

}  // namespace shardproof
