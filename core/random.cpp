#include "core/random.hpp"

#include "core/hash.hpp"

#include <cmath>
#include <numbers>

namespace shardproof {
namespace {

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): a counter becomes 64 well-mixed bits.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double unit(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

Tensor seeded_normal(at::IntArrayRef shape, uint64_t seed, std::string_view name) {
  Tensor result = at::empty(shape, at::kDouble);
  double* out = result.data_ptr<double>();
  const uint64_t stream = mix(hash_text(name) ^ mix(seed));
  for (int64_t i = 0; i < result.numel(); ++i) {  // Box-Muller, one output a counter
    const uint64_t counter = stream + 2 * static_cast<uint64_t>(i);
    out[i] = std::sqrt(-2 * std::log(unit(mix(counter)))) * std::cos(2 * std::numbers::pi * unit(mix(counter + 1)));
  }
  return result;
}

}  // namespace shardproof
