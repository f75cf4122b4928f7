#include "models/safetensors.hpp"

#include "core/hash.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace shardproof {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little endian and is read as it is");

constexpr std::string_view subsystem = "safetensors";

at::ScalarType scalar_type(std::string_view stored) {
  if (stored == "F64") return at::kDouble;
  if (stored == "F32") return at::kFloat;
  if (stored == "F16") return at::kHalf;
  if (stored == "BF16") return at::kBFloat16;
  if (stored == "I64") return at::kLong;
  if (stored == "I32") return at::kInt;
  if (stored == "I16") return at::kShort;
  if (stored == "I8") return at::kChar;
  if (stored == "U8") return at::kByte;
  if (stored == "BOOL") return at::kBool;
  return at::ScalarType::Undefined;
}

/// FNV-1a over words of 8 bytes instead of bytes, with high bits fed back: about memory speed.
uint64_t hash_words(std::span<const std::byte> bytes, uint64_t state) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state = (state ^ word) * 0x100000001b3ULL;
    state ^= state >> 32;
  }
  return hash_bytes(bytes, state);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  // Non-blocking, or a named pipe would hang here; regular files do not care.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_input(subsystem, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail_input(subsystem, "{}: {}", path.string(), std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail_input(subsystem, "{}: is not a regular file", path.string());
    file_size_ = static_cast<uint64_t>(status.st_size);

    std::vector<std::byte> bytes(std::min<uint64_t>(8, file_size_));
    read_bytes(bytes.data(), bytes.size(), 0, "the header");
    const uint64_t length = safetensors_header_length(bytes, file_size_, path.string());
    bytes.resize(8 + length);
    read_bytes(bytes.data() + 8, length, 8, "the header");
    header_ = parse_safetensors_header(bytes, file_size_, path.string());
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  for (const auto& [name, tensor] : header_.tensors) tensors_[name] = {scalar_type(tensor.type.name), tensor.shape};
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

void SafetensorsFile::read_bytes(std::byte* out, uint64_t size, uint64_t offset, const std::string& what) const {
  while (size > 0) {
    const ssize_t got = ::pread(descriptor_, out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input(subsystem, "{}: {}: cannot be read: {}", path_.string(), what, std::strerror(errno));
    if (got == 0)
      fail_input(subsystem, "{}: {}: the file ends at byte {}, {} more are needed; it was cut short after it was opened",
                 path_.string(), what, offset, size);
    out += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
}

Tensor SafetensorsFile::read(const std::string& name, const Slice& slice) {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) fail_input(subsystem, "{}: has no tensor {}", path_.string(), quoted_name(name));
  const StoredTensor& stored = found->second;
  const auto what = fmt::format("tensor {}", quoted_name(name));
  const at::ScalarType dtype = tensors_.at(name).dtype;
  if (dtype == at::ScalarType::Undefined)
    fail_input(subsystem, "{}: {}: dtype {} cannot be read; accepted: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL",
               path_.string(), what, stored.type.name);
  const SliceLayout layout = slice_layout(stored, slice.dim, slice.ranges, fmt::format("{}: {}", path_.string(), what));

  Tensor result;
  try {
    result = at::empty(layout.shape, dtype);
  } catch (const std::exception&) {  // no memory, or strides that overflow (a legal shape such as [0, 2^62, 2^62])
    fail_input(subsystem, "{}: {}: no tensor of shape {} can be made", path_.string(), what, shape_text(layout.shape));
  }
  auto* out = static_cast<std::byte*>(result.mutable_data_ptr());
  for (uint64_t row = 0; row < layout.outer; ++row) {
    for (const SliceLayout::Run& run : layout.runs) {
      read_bytes(out, run.size, stored.begin + row * layout.row_bytes + run.offset, what);
      out += run.size;
      bytes_read_ += static_cast<int64_t>(run.size);
    }
  }
  if (dtype == at::kBool) {  // a bool that is neither 0 nor 1 is undefined behaviour
    auto* values = static_cast<unsigned char*>(result.mutable_data_ptr());
    std::for_each(values, values + layout.bytes, [](unsigned char& value) { value = value != 0; });
  }
  return result;
}

uint64_t SafetensorsFile::hash(uint64_t state) const {
  constexpr uint64_t whole_limit = 256ULL << 20, sample = 1ULL << 20, samples = 64;
  std::vector<std::byte> block(4ULL << 20);
  const auto add = [&](uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end;) {
      const uint64_t size = std::min<uint64_t>(block.size(), end - at);
      read_bytes(block.data(), size, at, "contents");
      state = hash_words(std::span(block).first(size), state);
      at += size;
    }
  };
  state = hash_bytes(std::as_bytes(std::span(&file_size_, 1)), state);
  add(0, header_.data_begin);
  const uint64_t data = file_size_ - header_.data_begin;
  if (data < whole_limit) {
    add(header_.data_begin, file_size_);
  } else {
    for (uint64_t i = 0; i < samples; ++i) {
      const uint64_t begin = header_.data_begin + (data - sample) / (samples - 1) * i;
      add(i + 1 < samples ? begin : file_size_ - sample, i + 1 < samples ? begin + sample : file_size_);
    }
  }
  return state;
}

}  // namespace shardproof
