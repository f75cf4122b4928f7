#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace shardproof {

/// FNV-1a, taken eight bytes at a time, continued from `state`: a fingerprint for equality checks, not a security measure.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t state = 0xcbf29ce484222325ULL);
uint64_t hash_text(std::string_view text, uint64_t state = 0xcbf29ce484222325ULL);

/// A tensor's dtype, shape and values, whatever its strides.
uint64_t tensor_hash(const Tensor& tensor);

/// Sixteen hexadecimal digits.
std::string hash_hex(uint64_t hash);

}  // namespace shardproof
