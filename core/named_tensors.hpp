#pragma once

#include "core/tensor.hpp"

#include <map>
#include <string>

namespace shardproof {

/// Tensors by name: a model's inputs under diffusers' argument names, a module's inputs and outputs by slot.
using NamedTensors = std::map<std::string, Tensor>;

/// The same values in another dtype. Masks and position ids ("…_ids", "ids") stay as they are: they are not activations.
inline NamedTensors to_dtype(NamedTensors tensors, at::ScalarType dtype) {
  for (auto& [name, tensor] : tensors)
    if (!name.ends_with("ids") && tensor.is_floating_point()) tensor = tensor.to(dtype);
  return tensors;
}

}  // namespace shardproof
