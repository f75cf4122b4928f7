#include "strategies/attention_choice.hpp"

#include "core/dtype.hpp"

#include <algorithm>

namespace shardproof {

std::optional<std::string> attention_unsupported(const Strategy& strategy, const ModelTraits& model, std::string_view backend,
                                                 const AttentionTraits& can, at::ScalarType dtype, bool mask) {
  const auto because = [&](const std::string& what) {
    return std::optional(fmt::format("attention backend {} {}", backend, what));
  };
  if (can.device != "cpu") return because(fmt::format("runs on {}; this run is on cpu", can.device));
  if (std::find(can.dtypes.begin(), can.dtypes.end(), dtype) == can.dtypes.end())
    return because(fmt::format("does not take {}", dtype_name(dtype)));
  if (strategy.needs_lse() && !can.lse) return because("gives no log-sum-exp, which merging needs");
  if (mask && !can.mask) return because("takes no key mask");
  if (model.kv_heads < model.heads && !can.gqa)
    return because(fmt::format("takes no fewer key/value heads ({}) than query heads ({})", model.kv_heads, model.heads));
  return std::nullopt;
}

}  // namespace shardproof
