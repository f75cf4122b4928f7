#include "harness/mutants/broken.hpp"
#include "harness/mutants/families.hpp"

#include <algorithm>

namespace shardproof {
namespace {

Mutation of_call(std::string name, std::string what, decltype(AttentionChange::call) change, bool mask = false) {
  return {std::move(name), std::move(what), context_parallel,
          [change](const FaultSite& site) { return broken_attention(site, {.call = change}); }, mask};
}

Mutation of_result(std::string name, std::string what, decltype(AttentionChange::result) change) {
  return {std::move(name), std::move(what), context_parallel,
          [change](const FaultSite& site) { return broken_attention(site, {.result = change}); }};
}

/// What `source` holds, with as many tokens as this rank has.
Tensor of_rank(Communicator& world, const Tensor& x, int source) {
  int64_t longest = 0;
  for (const auto& length : world.exchange({x.size(1)})) longest = std::max(longest, length[0]);
  const auto padded = at::cat({x, x}, 1).narrow(1, 0, longest);  // lengths differ by a few tokens at most
  return world.all_gather(padded)[source].narrow(1, 0, x.size(1));
}

Tensor ordered_text_first(const std::vector<Tensor>& masks, const AttentionSite& site) {
  std::vector<Tensor> text, image;
  for (size_t rank = 0; rank < masks.size(); ++rank) {
    text.push_back(masks[rank].narrow(1, 0, site.all_text[rank]));
    image.push_back(masks[rank].narrow(1, site.all_text[rank], site.all_image[rank]));
  }
  text.insert(text.end(), image.begin(), image.end());
  return at::cat(text, 1);
}

/// diffusers#13756: the whole mask stays in the order text, image while the tokens lie rank by rank.
void leave_mask_in_model_order(AttentionCall& call, AttentionSite& site) {
  std::vector<int64_t> lengths;
  for (size_t rank = 0; rank < site.all_text.size(); ++rank) lengths.push_back(site.all_text[rank] + site.all_image[rank]);
  std::vector<Tensor> masks;
  for (const Tensor& mask : site.mesh.world().all_gather_v(call.mask->flatten(1).t().contiguous(), lengths))
    masks.push_back(mask.t());
  int64_t begin = 0;
  const int rank = site.mesh.world().rank();
  for (int i = 0; i < rank; ++i) begin += lengths[i];
  call.mask = ordered_text_first(masks, site).narrow(1, begin, lengths[rank]);
}

std::vector<Mutation> wrong_calls() {
  return {
      of_call("query_heads_permuted", "the heads of q lie in another order than those of k and v",
              [](AttentionCall& call, AttentionSite&) { call.q = call.q.roll(1, 2); }),
      of_call("value_heads_permuted", "the heads of v lie in another order than those of q and k",
              [](AttentionCall& call, AttentionSite&) { call.v = call.v.roll(1, 2); }),
      of_call("keys_against_values", "keys and values are gathered in different token orders",
              [](AttentionCall& call, AttentionSite&) { call.k = call.k.flip(1); }),
      of_call("values_one_token_off", "values belong to the key before",
              [](AttentionCall& call, AttentionSite&) { call.v = call.v.roll(1, 1); }),
      of_call("queries_one_token_off", "each token asks with the query before",
              [](AttentionCall& call, AttentionSite&) { call.q = call.q.roll(1, 1); }),
      of_call("keys_and_values_of_rank_0", "every rank brings rank 0's keys and values",
              [](AttentionCall& call, AttentionSite& site) {
                call.k = of_rank(site.mesh.world(), call.k, 0);
                call.v = of_rank(site.mesh.world(), call.v, 0);
              }),
  };
}

Mutation mask_in_model_order() {
  Mutation mutation = of_call("mask_in_model_order", "the mask stays in the order text, image while tokens lie rank by rank",
                              leave_mask_in_model_order, true);
  std::erase(mutation.strategies, "tp+ulysses");  // the world is not one context-parallel group there
  return mutation;
}

Mutation local_attention_only() {
  return {"local_attention_only", "every rank attends to its own tokens", context_parallel, [](const FaultSite& site) {
            return broken_attention(site, {.instead = [](const AttentionCall& call, AttentionSite& at) {
                                      return at.local.forward(call.q, call.k, call.v, call.mask).out_BSHD;
                                    }});
          }};
}

std::vector<Mutation> wrong_results() {
  return {
      of_result("result_heads_permuted", "the result's heads are joined in another order",
                [](Tensor& out, AttentionSite&) { out = out.roll(1, 2); }),
      of_result("last_head_lost", "the last head's result is lost",
                [](Tensor& out, AttentionSite&) { out.select(2, out.size(2) - 1).zero_(); }),
      of_result("text_image_swapped", "text and image change places after attention",
                [](Tensor& out, AttentionSite& site) {
                  out = at::cat({out.slice(1, site.text_tokens), out.slice(1, 0, site.text_tokens)}, 1);
                }),
      of_result("result_of_neighbour", "every rank takes the result of the rank after it",
                [](Tensor& out, AttentionSite& site) {
                  Communicator& world = site.mesh.world();
                  std::vector<Tensor> all;
                  for (int rank = 0; rank < world.size(); ++rank) all.push_back(of_rank(world, out, rank));
                  out = all[(world.rank() + 1) % world.size()];
                }),
      of_result("stale_result", "rank 1 takes the result of the attention before",
                [](Tensor& out, AttentionSite& site) {
                  if (site.mesh.world().rank() == 1 && site.previous.defined()) out = site.previous;
                }),
      of_result("last_rank_gives_nothing", "the last rank's result is zero",
                [](Tensor& out, AttentionSite& site) {
                  if (site.mesh.world().rank() + 1 == site.mesh.world().size()) out.zero_();
                }),
      of_result("result_rounded_to_fp32", "the result is rounded to fp32 in an fp64 run",
                [](Tensor& out, AttentionSite&) { out = out.to(at::kFloat).to(out.scalar_type()); }),
      of_result("result_scaled", "the result is a millionth too large", [](Tensor& out, AttentionSite&) { out.mul_(1 + 1e-6); }),
  };
}

}  // namespace

std::vector<Mutation> attention_mutants() {
  std::vector<Mutation> all{local_attention_only(), mask_in_model_order()};
  for (const auto& group : {wrong_calls(), wrong_results()}) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace shardproof
