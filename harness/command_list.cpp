#include "core/model_config.hpp"
#include "harness/command.hpp"
#include "harness/inputs.hpp"
#include "kernels/attention_backend.hpp"
#include "models/flux1.hpp"
#include "strategies/registry.hpp"

#include <fmt/ranges.h>

namespace shardproof {
namespace {

void print_models() {
  fmt::print("models (presets; or a diffusers folder with config.json)\n");
  for (const auto& name : preset_names()) {
    const Flux1Config c = flux1_preset(name);
    fmt::print("  {:<12} FLUX.1, {} double + {} single blocks, {} heads x {}, {} parameters\n", name, c.num_layers, c.num_single_layers,
               c.heads, c.head_dim, parameter_count(flux1_traits(c)));
  }
}

int list() {
  print_models();
  fmt::print("strategies (with the mesh axes they use)\n");
  for (const Strategy* strategy : all_strategies()) {
    std::vector<std::string_view> axes;
    for (const Axis axis : strategy->axes()) axes.push_back(axis_name(axis));
    fmt::print("  {:<14} {}\n", strategy->name(), fmt::join(axes, ", "));
  }
  fmt::print("attention backends\n");
  for (const auto& name : attention_backend_names()) {
    const AttentionTraits traits = make_attention_backend(name)->traits();
    fmt::print("  {:<14} lse {}, key mask {}, fewer key/value heads {}\n", name, traits.lse ? "yes" : "no", traits.mask ? "yes" : "no",
               traits.gqa ? "yes" : "no");
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
