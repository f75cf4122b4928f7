#pragma once

#include "core/json.hpp"
#include "core/tensor.hpp"
#include "tests/support/temp_dir.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof::test {

/// A file's bytes from its parts; `length` replaces the true header length in the prefix.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = "", std::optional<uint64_t> length = {}) {
  uint64_t n = length.value_or(header.size());
  std::string bytes;
  for (int i = 0; i < 8; ++i, n >>= 8) bytes += static_cast<char>(n & 0xff);
  return bytes.append(header).append(data);
}

inline std::string safetensors_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "F64";
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kShort:
      return "I16";
    case at::kChar:
      return "I8";
    case at::kByte:
      return "U8";
    case at::kBool:
      return "BOOL";
    default:
      throw std::runtime_error("no safetensors type for " + std::string(c10::toString(dtype)));
  }
}

/// Any map-like range of (name, tensor), written in the given order.
template <class Tensors>
void write_safetensors(const std::filesystem::path& path, const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    const auto begin = data.size();
    data.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
    header[name] = {
        {"dtype", safetensors_type(dense.scalar_type())}, {"shape", dense.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
  }
  write_file(path, safetensors_bytes(header.dump(), data));
}

}  // namespace shardproof::test
