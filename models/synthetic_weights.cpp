#include "models/synthetic_weights.hpp"

#include "core/dtype.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "models/safetensors_header.hpp"

#include <cmath>

namespace shardproof {
namespace {

Tensor make_values(const std::string& name, const std::vector<int64_t>& shape, uint64_t seed) {
  Tensor values = seeded_normal(shape, seed, name);
  if (values.numel() == 0) return values;
  if (shape.size() >= 2) return values.mul_(1 / std::sqrt(static_cast<double>(values.numel() / shape[0])));
  if (name.ends_with(".bias")) return values.mul_(0.1);
  return values.mul_(0.2).add_(1);
}

}  // namespace

SyntheticWeights::SyntheticWeights(const std::map<std::string, std::vector<int64_t>>& shapes, uint64_t seed, at::ScalarType dtype)
    : seed_(seed), dtype_(dtype) {
  for (const auto& [name, shape] : shapes) tensors_[name] = {dtype, shape};
}

std::vector<std::string> SyntheticWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, info] : tensors_) names.push_back(name);
  return names;
}

const TensorInfo* SyntheticWeights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Tensor SyntheticWeights::read(const std::string& name, const Slice& slice) {
  const TensorInfo* info = find(name);
  if (!info) fail_input("synthetic", "there is no tensor {}", quoted_name(name));
  // The layout is that of a file, so that a slice which a file refuses is refused here.
  const auto item = static_cast<uint64_t>(c10::elementSize(dtype_));
  StoredTensor stored{{"synthetic", static_cast<int>(8 * item)},
                      info->shape,
                      0,
                      static_cast<uint64_t>(c10::multiply_integers(info->shape)) * item};
  const SliceLayout layout = slice_layout(stored, slice.dim, slice.ranges, fmt::format("tensor {}", quoted_name(name)));

  const Tensor whole = make_values(name, info->shape, seed_);
  Tensor result = at::empty(layout.shape, dtype_);  // owns exactly its bytes: a view of `whole` would keep all of it
  int64_t at = 0;
  for (const Range& range : slice.ranges) {
    result.narrow(slice.dim, at, range.size).copy_(whole.narrow(slice.dim, range.begin, range.size));
    at += range.size;
  }
  if (slice.ranges.empty()) result.copy_(whole);
  bytes_read_ += static_cast<int64_t>(layout.bytes);
  return result;
}

std::string SyntheticWeights::hash() const {
  uint64_t state = hash_text(fmt::format("synthetic {} {}", seed_, dtype_name(dtype_)));
  for (const auto& [name, info] : tensors_) state = hash_text(shape_text(info.shape), hash_text(name, state));
  return hash_hex(state);
}

}  // namespace shardproof
