#pragma once

#include "models/safetensors_header.hpp"
#include "models/weight_source.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace shardproof {

/// One open .safetensors file. Opening reads and checks the header alone; `read` requests exactly the bytes of the
/// slice (pread, no memory map), so that what a rank reads is what it holds. Every Error is an input Error that
/// names the file and, where there is one, the tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Dtype and shape of every tensor. The dtype is `Undefined` where LibTorch's counterpart is not used here
  /// (U16, U32, U64, C64 and the types of 8 bits and less other than I8, U8, BOOL): `read` refuses these by name.
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }

  /// See WeightSource::read.
  Tensor read(const std::string& name, const Slice& slice = {});
  int64_t bytes_read() const { return bytes_read_; }

  /// Continues a hash over the file's size, prefix and header, and its data: all of it below 256 MiB, else 64 blocks
  /// of 1 MiB, evenly spaced, first and last included (a change between the blocks is not seen). Not counted in
  /// bytes_read.
  uint64_t hash(uint64_t state) const;

 private:
  void read_bytes(std::byte* out, uint64_t size, uint64_t offset, const std::string& what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t file_size_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, TensorInfo> tensors_;
  int64_t bytes_read_ = 0;
};

}  // namespace shardproof
