#include "strategies/key_value_meter.hpp"

#include <algorithm>

namespace shardproof {

void KeyValueMeter::watch(const Tensor& keys_or_values) {
  if (!keys_or_values.defined() || !keys_or_values.has_storage()) return;
  std::erase_if(alive_, [](const auto& storage) { return storage.expired(); });
  c10::StorageImpl* added = keys_or_values.storage().unsafeGetStorageImpl();
  if (std::none_of(alive_.begin(), alive_.end(), [&](const auto& storage) { return storage._unsafe_get_target() == added; }))
    alive_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>(keys_or_values.storage().getWeakStorageImpl().lock()));
  int64_t bytes = 0;
  for (const auto& storage : alive_) bytes += static_cast<int64_t>(storage._unsafe_get_target()->nbytes());
  peak_bytes_ = std::max(peak_bytes_, bytes);
}

}  // namespace shardproof
