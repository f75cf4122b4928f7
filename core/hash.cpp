#include "core/hash.hpp"

#include <fmt/format.h>

#include <cstring>

namespace shardproof {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t state) {
  constexpr uint64_t prime = 0x100000001b3ULL;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {  // eight bytes a step: weights are hashed on every rank
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    state = (state ^ word) * prime;
    state ^= state >> 32;  // the high bits of a word must reach the low bits of the state
  }
  for (; i < bytes.size(); ++i) state = (state ^ static_cast<uint64_t>(bytes[i])) * prime;
  return state ^ (state >> 29);
}

uint64_t hash_text(std::string_view text, uint64_t state) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), state);
}

uint64_t tensor_hash(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous().cpu();
  const auto* data = static_cast<const std::byte*>(dense.const_data_ptr());
  return hash_bytes({data, dense.nbytes()}, hash_text(c10::toString(dense.scalar_type()) + shape_text(dense.sizes())));
}

std::string hash_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace shardproof
