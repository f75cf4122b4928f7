#include "core/dtype.hpp"
#include "core/model_config.hpp"
#include "harness/command.hpp"
#include "harness/inputs.hpp"
#include "kernels/attention_backend.hpp"
#include "models/flux1.hpp"
#include "models/flux2.hpp"
#include "models/qwen_image.hpp"
#include "strategies/registry.hpp"

#include <fmt/ranges.h>

namespace shardproof {
namespace {

std::string described(const Flux1Config& c) {
  return fmt::format("FLUX.1, {} double + {} single blocks, {} heads x {}, {} parameters", c.num_layers, c.num_single_layers,
                     c.heads, c.head_dim, parameter_count(flux1_traits(c)));
}

std::string described(const Flux2Config& c) {
  return fmt::format("FLUX.2, {} double + {} single blocks, {} heads x {}, {} parameters", c.num_layers, c.num_single_layers,
                     c.heads, c.head_dim, parameter_count(flux2_traits(c)));
}

std::string described(const QwenImageConfig& c) {
  return fmt::format("Qwen-Image, {} double blocks, {} heads x {}, {} parameters", c.num_layers, c.heads, c.head_dim,
                     parameter_count(qwen_image_traits(c)));
}

void print_models() {
  fmt::print("models (presets; or a diffusers folder with config.json)\n");
  for (const auto& name : preset_names())
    fmt::print("  {:<15} {}\n", name, std::visit([](const auto& config) { return described(config); }, model_preset(name)));
}

int list() {
  print_models();
  fmt::print("strategies (with the mesh axes they use)\n");
  for (const Strategy* strategy : all_strategies()) {
    std::vector<std::string_view> axes;
    for (const Axis axis : strategy->axes()) axes.push_back(axis_name(axis));
    fmt::print("  {:<16} {}\n", strategy->name(), fmt::join(axes, ", "));
  }
  fmt::print(
      "  products of these over different axes, e.g. tp+ulysses, tp+unified_anything; also ring_unconverted (convert_to_fp32 "
      "off),\n"
      "  unified_balanced (unified)\n");
  fmt::print("attention backends (diffusers' names native, _native_flash, _native_math, … are accepted too)\n");
  for (const auto& name : attention_backend_names()) {
    const AttentionTraits traits = make_attention_backend(name)->traits();
    std::vector<std::string> dtypes;
    for (const auto dtype : traits.dtypes) dtypes.push_back(dtype_name(dtype));
    fmt::print("  {:<16} on {:<4}  {:<23} key mask {}, fewer key/value heads {}, lse {}\n", name, traits.device,
               fmt::join(dtypes, ", "), traits.mask ? "yes" : "no", traits.gqa ? "yes" : "no",
               traits.lse ? traits.native_lse : "no");
  }
  fmt::print("communicators\n  local          virtual ranks in one process, no GPU needed\n");
  fmt::print("dtypes\n  fp64, fp32, bf16, fp16\ninput families\n  {}\n", fmt::join(input_families(), ", "));
  return exit_status::passed;
}

}  // namespace

void add_list(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("list", "Models, strategies, attention backends and communicators that can be named.");
  command->callback([&run] { run = list; });
}

}  // namespace shardproof
