#pragma once

#include "core/shard.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// The safetensors format without files and without LibTorch, so that a fuzzer can drive it:
/// 8 bytes N (little endian), N bytes of JSON, then the tensors' bytes without gaps.
/// Accepted is what safetensors 0.8.0 accepts, and less where its format description is stricter than its
/// code: see docs of `parse_safetensors_header`.

/// A stored element type: its name in the file and its width. Some are narrower than a byte.
struct StoredType {
  std::string_view name;
  int bits = 0;
  friend bool operator==(const StoredType&, const StoredType&) = default;
};

/// One tensor of a file. `begin` and `end` are offsets from the start of the *file*, checked to lie in it.
struct StoredTensor {
  StoredType type;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
  uint64_t data_begin = 0;                      ///< 8 + N
};

inline constexpr uint64_t max_safetensors_header = 100'000'000;

/// N from the first 8 bytes, checked against the limit and the file's size: call it before allocating N bytes.
/// `source` names the file in errors. Input Errors.
uint64_t safetensors_header_length(std::span<const std::byte> prefix, uint64_t file_size, std::string_view source);

/// Parses and checks prefix and header; `bytes` holds at least 8 + N bytes (what follows is ignored), and
/// `file_size` is the whole file's. Refused with an input Error that names the source and the tensor:
/// lengths that do not fit, anything that is not a JSON object of tensors, repeated keys, metadata values that are
/// not strings, unknown dtypes, sizes that overflow, ranges that do not match dtype x shape, and data that is
/// not covered exactly once. Stricter than safetensors 0.8.0: the first byte must be '{', repeated tensor names and
/// tensors written as a list are refused, a dimension must fit int64, and there are at most 64 of them. Memory: a small multiple
/// of the header.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_size, std::string_view source);

/// A slice as runs of bytes: for each of `outer` rows of `row_bytes` bytes, the runs in `runs`, relative to the row.
/// Concatenated in order they are the slice in row-major order. Neighbouring runs are already joined.
struct SliceLayout {
  struct Run {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  std::vector<int64_t> shape;  ///< of the slice
  uint64_t outer = 1;
  uint64_t row_bytes = 0;
  std::vector<Run> runs;
  uint64_t bytes = 0;  ///< of the slice
};

/// Ranges as in `Slice` (models/weight_source.hpp); none means the whole tensor. Input Error that starts with
/// `what` when the dimension or a range does not exist, ranges overlap or descend, or the type is narrower than a byte.
SliceLayout slice_layout(const StoredTensor& tensor, int64_t dim, std::span<const Range> ranges, std::string_view what);

/// A name for a message: quoted, control characters replaced, cut when longer than 200 bytes.
std::string quoted_name(std::string_view name);

}  // namespace shardproof
