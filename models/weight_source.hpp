#pragma once

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/tensor.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

struct TensorInfo {
  at::ScalarType dtype;  ///< `Undefined` for a stored type that cannot be read (its name is in the error of `read`)
  std::vector<int64_t> shape;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// What to take of a tensor: `ranges` of dimension `dim`, in ascending order and without overlap, concatenated
/// along `dim` (what `packed_share` gives). No ranges at all means the whole tensor; ranges that are all of
/// size 0 mean a tensor of length 0 along `dim`.
struct Slice {
  int64_t dim = 0;
  std::vector<Range> ranges;
};

/// Where weights come from. Only what is asked for is read, so that a rank never holds more than its share.
/// Every problem is an input Error that names the source and the tensor.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// All tensor names, sorted.
  virtual std::vector<std::string> names() const = 0;

  /// Dtype and full shape; null for an unknown name. Valid as long as the source.
  virtual const TensorInfo* find(const std::string& name) const = 0;

  /// The slice in its stored dtype: contiguous, and the only owner of a storage of exactly the slice's bytes.
  virtual Tensor read(const std::string& name, const Slice& slice = {}) = 0;

  /// Bytes of tensor data requested by `read` so far: the sum of the sizes of the slices that it returned.
  virtual int64_t bytes_read() const = 0;

  /// Sixteen hexadecimal digits that tell one set of weights from another.
  virtual std::string hash() const = 0;
};

/// The tensor's entry, checked: input Error that names the tensor, the shape found and the shape expected.
inline const TensorInfo& require(const WeightSource& source, const std::string& name, at::IntArrayRef shape) {
  const TensorInfo* info = source.find(name);
  if (!info) fail_input("weights", "tensor \"{}\" is missing; expected: shape {}", name, shape_text(shape));
  if (at::IntArrayRef(info->shape) != shape)
    fail_input("weights", "tensor \"{}\" has shape {}; expected: {}", name, shape_text(info->shape), shape_text(shape));
  return *info;
}

}  // namespace shardproof
