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

constexpr std::array<Entry, 6> backends{{{"kokkos_naive", make_kokkos_naive},
                                         {"kokkos_flash", make_kokkos_flash},
                                         {"aten_flash", make_aten_flash},
                                         {"aten_math", make_aten_math},
                                         {"aten_efficient", make_aten_efficient},
                                         {"aten_cudnn", make_aten_cudnn}}};

/// diffusers' names of what LibTorch itself brings; "native" is its own choice, on CPUs always the flash kernel.
constexpr std::array<std::array<std::string_view, 2>, 5> aliases{{{"native", "aten_flash"},
                                                                  {"_native_flash", "aten_flash"},
                                                                  {"_native_math", "aten_math"},
                                                                  {"_native_efficient", "aten_efficient"},
                                                                  {"_native_cudnn", "aten_cudnn"}}};

/// Starts of diffusers' names of packages that are not linked here.
constexpr std::array<std::string_view, 9> elsewhere{"flash", "_flash_3", "_flash_varlen_3", "aiter_", "flex", "_native_npu", "_native_xla", "sage", "xformers"};

std::string_view canonical(std::string_view name) {
  for (const auto& [alias, ours] : aliases)
    if (name == alias) return ours;
  return name;
}

}  // namespace

std::unique_ptr<AttentionBackend> make_attention_backend(std::string_view name) {
  for (const auto& entry : backends)
    if (canonical(name) == entry.name) return entry.make();
  for (const auto& package : elsewhere)
    if (name.starts_with(package) || name.starts_with("_sage"))
      fail_input("attention", "diffusers' backend \"{}\" needs a package that is not part of shardproof; accepted: {}", name,
                 fmt::join(attention_backend_names(), ", "));
  fail_input("attention", "unknown backend \"{}\"; accepted: {}", name, fmt::join(attention_backend_names(), ", "));
}

std::vector<std::string> attention_backend_names() {
  std::vector<std::string> names;
  for (const auto& entry : backends) names.emplace_back(entry.name);
  return names;
}

}  // namespace shardproof
