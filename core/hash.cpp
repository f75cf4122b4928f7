#include "core/hash.hpp"

#include <fmt/format.h>

namespace shardproof {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t state) {
  for (const std::byte byte : bytes) state = (state ^ static_cast<uint64_t>(byte)) * 0x100000001b3ULL;
  return state;
}

uint64_t hash_text(std::string_view text, uint64_t state) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), state);
}

uint64_t hash_tensor(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous().cpu();
  const auto* data = static_cast<const std::byte*>(dense.const_data_ptr());
  return hash_bytes({data, dense.nbytes()}, hash_text(c10::toString(dense.scalar_type()) + shape_text(dense.sizes())));
}

std::string hash_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace shardproof
