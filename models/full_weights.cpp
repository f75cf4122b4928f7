#include "models/full_weights.hpp"

namespace shardproof {

FullWeights::FullWeights(WeightSource& source, at::ScalarType dtype) {
  const int64_t before = source.bytes_read();
  for (const std::string& name : source.names()) {
    Tensor tensor = source.read(name);
    if (tensor.is_floating_point() && dtype != at::ScalarType::Undefined) tensor = tensor.to(dtype);
    infos_[name] = {tensor.scalar_type(), tensor.sizes().vec()};
    tensors_[name] = std::move(tensor);
  }
  bytes_read_ = source.bytes_read() - before;
  hash_ = source.hash();
}

std::vector<std::string> FullWeights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors_) all.push_back(name);
  return all;
}

const TensorInfo* FullWeights::find(const std::string& name) const {
  const auto found = infos_.find(name);
  return found == infos_.end() ? nullptr : &found->second;
}

Tensor FullWeights::read(const std::string& name, const Slice& slice) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail_input("weights", "tensor \"{}\" is missing from the loaded model", name);
  if (slice.ranges.empty()) return found->second.clone();
  std::vector<Tensor> pieces;
  for (const Range& range : slice.ranges) pieces.push_back(found->second.narrow(slice.dim, range.begin, range.size));
  return at::cat(pieces, slice.dim);  // a copy: a view would keep the whole tensor alive
}

}  // namespace shardproof
