#include "kernels/attention_backend.hpp"

#include "core/error.hpp"
#include "kernels/attention_inputs.hpp"

#include <array>

namespace shardproof {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<AttentionBackend> (*make)();
};

constexpr std::array<Entry, 4> backends{{{"kokkos_naive", make_kokkos_naive},
                                         {"kokkos_flash", make_kokkos_flash},
                                         {"aten_flash", make_aten_flash},
                                         {"aten_math", make_aten_math}}};

}  // namespace

std::unique_ptr<AttentionBackend> make_attention_backend(std::string_view name) {
  for (const auto& entry : backends)
    if (name == entry.name) return entry.make();
  fail_input("attention", "unknown backend \"{}\"; accepted: {}", name, fmt::join(attention_backend_names(), ", "));
}

std::vector<std::string> attention_backend_names() {
  std::vector<std::string> names;
  for (const auto& entry : backends) names.emplace_back(entry.name);
  return names;
}

}  // namespace shardproof
