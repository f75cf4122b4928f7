#include "models/model_traits.hpp"

#include <c10/util/accumulate.h>

namespace shardproof {

int64_t parameter_count(const ModelTraits& traits) {
  int64_t count = 0;
  for (const auto& [name, shape] : traits.parameters) count += c10::multiply_integers(shape);
  return count;
}

}  // namespace shardproof
