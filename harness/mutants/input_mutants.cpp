#include "core/shard.hpp"
#include "harness/mutants/broken.hpp"
#include "harness/mutants/families.hpp"

#include <algorithm>

namespace shardproof {
namespace {

using Change = decltype(FaultInjection::inputs);

Mutation of_input(std::string name, std::string what, std::string input, Change change, bool mask = false) {
  return {std::move(name),
          std::move(what),
          context_parallel,
          [change](const FaultSite&) {
            FaultInjection fault;
            fault.inputs = change;
            return fault;
          },
          mask,
          2,
          std::move(input)};
}

Mutation of_plan(std::string name, std::string what, const std::vector<std::string>& strategies, std::string input,
                 PlanChange change, int least_ranks = 2) {
  return {
      std::move(name), std::move(what), strategies,      [change](const FaultSite& site) { return broken_plan(site, change); },
      false,           least_ranks,     std::move(input)};
}

/// Every rank's share becomes the first rank's.
void first_share_everywhere(Tensor& x, int64_t dim, int ranks) {
  std::vector<Tensor> shares;
  for (const int64_t size : uneven_sizes(x.size(dim), ranks)) shares.push_back(x.narrow(dim, 0, size));
  x = at::cat(shares, dim);
}

Change on_rank_1(std::string input, std::function<void(Tensor&)> change) {
  return [input, change](NamedTensors& inputs, int rank, int, int64_t) {
    if (rank == 1) change(inputs.at(input));
  };
}

std::vector<Mutation> wrong_inputs() {
  const auto unsplit = [](const std::string& input, int64_t dim) -> Change {
    return [input, dim](NamedTensors& inputs, int, int ranks, int64_t) { first_share_everywhere(inputs.at(input), dim, ranks); };
  };
  return {
      of_input("image_ids_not_split", "every rank rotates its image tokens by the first rank's position ids", "img_ids",
               unsplit("img_ids", 0)),
      of_input("text_ids_not_split", "every rank rotates its text tokens by the first rank's position ids", "txt_ids",
               unsplit("txt_ids", 0)),
      of_input("image_ids_shifted", "rank 1 counts its image tokens from one too late", "img_ids",
               on_rank_1("img_ids", [](Tensor& x) { x = x.roll(-1, 0); })),
      of_input("mask_not_split", "every rank masks its text by the first rank's share of the mask", "encoder_hidden_states_mask",
               unsplit("encoder_hidden_states_mask", 1), true),
      of_input(
          "mask_of_next_rank", "every rank masks its text by the next rank's share of the mask", "encoder_hidden_states_mask",
          [](NamedTensors& inputs, int, int ranks, int64_t) {
            Tensor& mask = inputs.at("encoder_hidden_states_mask");
            mask = mask.roll(-(mask.size(1) / ranks), 1);
          },
          true),
      of_input("one_rank_other_latents", "rank 1 starts from other latents", "hidden_states",
               on_rank_1("hidden_states", [](Tensor& x) { x = x.flip(2); })),
      of_input("latents_shifted", "rank 1's share of the latents starts one token early", "hidden_states",
               on_rank_1("hidden_states", [](Tensor& x) { x = x.roll(1, 1); })),
      of_input("text_shifted", "rank 1's share of the text starts one token early", "encoder_hidden_states",
               on_rank_1("encoder_hidden_states", [](Tensor& x) { x = x.roll(1, 1); })),
      of_input("one_rank_behind", "rank 1 is one denoising step behind: its timestep is the one before", "timestep",
               on_rank_1("timestep", [](Tensor& x) { x = x * 1.25; })),
      of_input("text_of_another_prompt", "rank 1 takes its share of the text from the prompt before", "encoder_hidden_states",
               on_rank_1("encoder_hidden_states", [](Tensor& x) { x = x.roll(1, 0); }), true),
  };
}

void reverse_axes(Split& split) { std::reverse(split.axes.begin(), split.axes.end()); }

std::vector<Mutation> wrong_plans() {
  const std::vector<std::string> two_axes{"unified", "unified_anything"};
  return {
      of_plan("input_left_unsplit", "the plan leaves the latents whole", context_parallel, "hidden_states",
              [](Plan& plan) { plan.inputs.erase("hidden_states"); }),
      of_plan("output_not_gathered", "every rank keeps its own tokens of the output", context_parallel, "",
              [](Plan& plan) { plan.outputs.clear(); }),
      of_plan("even_flag", "lengths that do not divide are taken to divide", anything, "",
              [](Plan& plan) {
                for (auto& [name, split] : plan.inputs) split.uneven = false;
              }),
      of_plan(
          "gather_axes_swapped", "the output is gathered over ring and ulysses in the wrong order", two_axes, "",
          [](Plan& plan) {
            for (auto& [name, split] : plan.outputs) reverse_axes(split);
          },
          4),
      of_plan(
          "latent_axes_swapped", "latents are cut over ulysses first", two_axes, "hidden_states",
          [](Plan& plan) { reverse_axes(plan.inputs.at("hidden_states")); }, 4),
      of_plan(
          "id_axes_swapped", "image ids are cut over ulysses first", two_axes, "img_ids",
          [](Plan& plan) { reverse_axes(plan.inputs.at("img_ids")); }, 4),
      of_plan(
          "input_cut_over_ring_only", "position ids are cut over ring but not over ulysses", two_axes, "img_ids",
          [](Plan& plan) { plan.inputs.at("img_ids").axes = {Axis::ring}; }, 4),
  };
}

}  // namespace

std::vector<Mutation> input_mutants() {
  std::vector<Mutation> all = wrong_inputs();
  const auto plans = wrong_plans();
  all.insert(all.end(), plans.begin(), plans.end());
  return all;
}

}  // namespace shardproof
