#include "harness/mutants/broken.hpp"

#include <algorithm>

namespace shardproof {
namespace {

const std::vector<std::string> prompts_apart{"data_parallel"};

Mutation with_inputs(std::string name, std::string what, decltype(FaultInjection::inputs) change) {
  return {std::move(name), std::move(what), prompts_apart, [change](const FaultSite&) {
            FaultInjection fault;
            fault.inputs = change;
            return fault;
          }};
}

Mutation with_gather(std::string name, std::string what, std::function<void(std::vector<Tensor>&)> change) {
  return {std::move(name), std::move(what), prompts_apart, [change](const FaultSite&) {
            CommunicatorChanges changes;
            changes.arrival = [change](Arrival& arrival) { change(arrival.parts); };
            return broken_communicator(changes);
          }};
}

}  // namespace

std::vector<Mutation> data_parallel_mutants() {
  return {
      with_inputs("same_seed_on_every_rank", "every rank draws the first prompts' latents",
                  [](NamedTensors& inputs, int rank, int, int64_t) {
                    Tensor& latents = inputs.at("hidden_states");
                    if (rank > 0) latents = latents.narrow(0, 0, 1).expand_as(latents);
                  }),
      with_inputs("prompts_shifted", "prompts and latents are paired one off",
                  [](NamedTensors& inputs, int, int, int64_t) {
                    inputs.at("encoder_hidden_states") = inputs.at("encoder_hidden_states").roll(1, 0);
                  }),
      with_gather("gathered_in_reverse", "results come back in reverse rank order",
                  [](std::vector<Tensor>& parts) { std::reverse(parts.begin(), parts.end()); }),
      with_gather("first_result_repeated", "a rank's first result stands in for its others",
                  [](std::vector<Tensor>& parts) {
                    if (parts.size() > 1 && parts[0].size(0) > 1)
                      parts[0] = parts[0].narrow(0, 0, 1).expand_as(parts[0]).contiguous();
                  }),
      with_gather("last_rank_lost", "the last rank's results are empty pictures",
                  [](std::vector<Tensor>& parts) { parts.back().zero_(); }),
  };
}

}  // namespace shardproof
