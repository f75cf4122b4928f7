#include "strategies/unified.hpp"

#include "strategies/product.hpp"
#include "strategies/ring.hpp"
#include "strategies/ring_anything.hpp"
#include "strategies/ulysses.hpp"
#include "strategies/ulysses_anything.hpp"

namespace shardproof {

const Strategy& unified() {
  static const Product strategy("unified", {&ring(), &ulysses()}, 2);
  return strategy;
}

const Strategy& unified_anything() {
  static const Product strategy("unified_anything", {&ring_anything(), &ulysses_anything()}, 2);
  return strategy;
}

}  // namespace shardproof
