#pragma once

#include "models/weight_source.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace shardproof {

/// The safetensors name of a dtype: "BF16". Input Error for dtypes that are not written.
std::string safetensors_dtype(at::ScalarType dtype);

/// Writes one .safetensors file tensor by tensor, in any order, so that only one need be in memory. The file has a temporary
/// name until `finish`; one that is not finished is removed. Errors are runtime Errors that name the file.
class SafetensorsWriter {
 public:
  /// Lays out all tensors (in name order) and writes the header. `sparse` leaves the data as a hole: zeros that cost no disk.
  SafetensorsWriter(std::filesystem::path path, const std::map<std::string, TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata = {}, bool sparse = false);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// One whole tensor, of the dtype and shape that were announced (input Error otherwise).
  void write(const std::string& name, const Tensor& tensor);

  /// Gives the file its name. Input Error when a tensor was not written (unless sparse).
  void finish();

  uint64_t file_bytes() const { return size_; }

 private:
  void write_bytes(const void* data, uint64_t size, uint64_t offset);

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, uint64_t> offsets_;  ///< of those not yet written
  std::map<std::string, uint64_t> written_;
  uint64_t size_ = 0;
  bool sparse_;
};

}  // namespace shardproof
