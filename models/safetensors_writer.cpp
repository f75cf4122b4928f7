#include "models/safetensors_writer.hpp"

#include "core/dtype.hpp"
#include "core/json.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace shardproof {
namespace {

uint64_t bytes_of(const TensorInfo& info) {
  uint64_t elements = 1;
  for (const int64_t size : info.shape) elements *= static_cast<uint64_t>(size);
  return elements * c10::elementSize(info.dtype);
}

/// The 8-byte length and the header, padded so that data starts on a multiple of 8.
std::string head(const std::map<std::string, TensorInfo>& tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t begin = 0;
  for (const auto& [name, info] : tensors) {
    const uint64_t end = begin + bytes_of(info);
    header[name] = {{"dtype", safetensors_dtype(info.dtype)}, {"shape", info.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + text;
}

}  // namespace

std::string safetensors_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble: return "F64";
    case at::kFloat: return "F32";
    case at::kHalf: return "F16";
    case at::kBFloat16: return "BF16";
    default: fail_input("safetensors", "dtype {} is not written; accepted: F64, F32, F16, BF16", c10::toString(dtype));
  }
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::map<std::string, TensorInfo>& tensors,
                                     const std::map<std::string, std::string>& metadata, bool sparse)
    : path_(std::move(path)), temporary_(path_.string() + fmt::format(".tmp{}", ::getpid())), tensors_(tensors), sparse_(sparse) {
  const std::string header = head(tensors, metadata);
  uint64_t offset = header.size();
  for (const auto& [name, info] : tensors) {
    offsets_[name] = offset;
    offset += bytes_of(info);
  }
  size_ = offset;
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_runtime("safetensors", "{}: cannot be written: {}", path_.string(), std::strerror(errno));
  try {
    write_bytes(header.data(), header.size(), 0);
    if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) fail_runtime("safetensors", "{}: {}", path_.string(), std::strerror(errno));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::write_bytes(const void* data, uint64_t size, uint64_t offset) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = ::pwrite(descriptor_, from, size, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_runtime("safetensors", "{}: cannot be written: {}", path_.string(), std::strerror(errno));
    from += put;
    offset += static_cast<uint64_t>(put);
    size -= static_cast<uint64_t>(put);
  }
}

void SafetensorsWriter::write(const std::string& name, const Tensor& tensor) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail_input("safetensors", "{}: tensor \"{}\" was not announced", path_.string(), name);
  if (tensor.scalar_type() != found->second.dtype || tensor.sizes() != at::IntArrayRef(found->second.shape))
    fail_input("safetensors", "{}: tensor \"{}\" is {} {}; announced: {} {}", path_.string(), name, dtype_name(tensor.scalar_type()),
               shape_text(tensor.sizes()), dtype_name(found->second.dtype), shape_text(found->second.shape));
  const Tensor dense = tensor.contiguous();
  write_bytes(dense.const_data_ptr(), dense.nbytes(), offsets_.at(name));
  written_[name] = dense.nbytes();
}

void SafetensorsWriter::finish() {
  for (const auto& [name, offset] : offsets_)
    if (!sparse_ && !written_.count(name)) fail_input("safetensors", "{}: tensor \"{}\" was not written", path_.string(), name);
  if (::close(std::exchange(descriptor_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int failure = errno;
    ::unlink(temporary_.c_str());
    fail_runtime("safetensors", "{}: cannot be written: {}", path_.string(), std::strerror(failure));
  }
}

}  // namespace shardproof
