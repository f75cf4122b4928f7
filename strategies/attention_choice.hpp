#pragma once

#include "strategies/strategy.hpp"

#include <optional>
#include <string>

namespace shardproof {

/// Why an attention backend cannot serve a strategy on a model, or nothing. Asked once when the backend is chosen, and again
/// when it is changed: a context-parallel run whose backend cannot do it would quietly attend to local tokens only.
std::optional<std::string> attention_unsupported(const Strategy& strategy, const ModelTraits& model, std::string_view backend,
                                                 const AttentionTraits& can, at::ScalarType dtype, bool mask);

}  // namespace shardproof
