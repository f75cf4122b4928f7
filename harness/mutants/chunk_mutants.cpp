#include "harness/mutants/broken.hpp"
#include "harness/mutants/families.hpp"

#include <cmath>
#include <limits>

namespace shardproof {
namespace {

Mutation of_call(std::string name, std::string what, const std::vector<std::string>& strategies,
                 decltype(ChunkChange::call) change, bool mask = false) {
  return {std::move(name), std::move(what), strategies,
          [change](const FaultSite& site) { return broken_chunks(site, {.call = change}); }, mask};
}

Mutation of_part(std::string name, std::string what, const std::vector<std::string>& strategies,
                 decltype(ChunkChange::part) change) {
  return {std::move(name), std::move(what), strategies,
          [change](const FaultSite& site) { return broken_chunks(site, {.part = change}); }};
}

/// `x` with `length` tokens on dim 1: cut, or its first ones again.
Tensor fitted(const Tensor& x, int64_t length) {
  Tensor y = x;
  while (y.size(1) < length) y = at::cat({y, x}, 1);
  return y.narrow(1, 0, length);
}

Tensor rounded(const Tensor& x, at::ScalarType dtype) { return x.to(dtype).to(x.scalar_type()); }

/// One more key and value in front or behind; it is not masked.
void add_key(AttentionCall& call, const Tensor& k, const Tensor& v, bool front) {
  const auto joined = [front](const Tensor& x, const Tensor& more) {
    return front ? at::cat({more, x}, 1) : at::cat({x, more}, 1);
  };
  call.k = joined(call.k, k);
  call.v = joined(call.v, v);
  if (call.mask) call.mask = joined(*call.mask, at::ones({k.size(0), 1}, at::kBool));
}

std::vector<Mutation> wrong_chunks() {
  return {
      of_part("last_chunk_dropped", "the last K/V chunk of the ring is never attended to", ring_like,
              [](Attended& part, const ChunkCalls& seen) {
                if (!seen.last()) return;
                part.out_BSHD.zero_();
                part.lse_BSH.fill_(-std::numeric_limits<double>::infinity());
              }),
      of_call("chunk_used_twice", "the own chunk is attended to again in place of the last", ring_like,
              [](AttentionCall& call, const ChunkCalls& seen) {
                if (!seen.last()) return;
                const AttentionCall& first = seen.calls.front();
                call = {call.q, first.k, first.v, first.mask};
              }),
      of_call("keys_of_another_chunk", "keys are those of the chunk before, values are not", ring_like,
              [](AttentionCall& call, const ChunkCalls& seen) {
                if (seen.index() > 0) call.k = fitted(seen.calls[seen.index() - 1].k, call.k.size(1));
              }),
      of_part("stale_partial", "the last chunk's result is still that of the attention before", ring_like,
              [](Attended& part, const ChunkCalls& seen) {
                if (seen.last() && seen.before.size() == seen.expected) part = seen.before.back();
              }),
  };
}

std::vector<Mutation> wrong_keys() {
  return {
      of_call("last_key_dropped", "the last key of the first chunk attended to is left out", context_parallel,
              [](AttentionCall& call, const ChunkCalls& seen) {
                if (seen.index() > 0) return;
                const int64_t keys = call.k.size(1) - 1;
                call.k = call.k.narrow(1, 0, keys);
                call.v = call.v.narrow(1, 0, keys);
                if (call.mask) call.mask = call.mask->narrow(1, 0, keys);
              }),
      of_call("pad_token_left_in", "a zero pad token is attended to", context_parallel,
              [](AttentionCall& call, const ChunkCalls&) {
                const Tensor zero = at::zeros_like(call.k.narrow(1, 0, 1));
                add_key(call, zero, zero, false);
              }),
      of_call("first_key_counted_twice", "the first key of the last chunk is counted twice", context_parallel,
              [](AttentionCall& call, const ChunkCalls& seen) {
                if (seen.last()) add_key(call, call.k.narrow(1, 0, 1), call.v.narrow(1, 0, 1), true);
              }),
  };
}

std::vector<Mutation> wrong_merges() {
  return {
      of_part("plain_average", "partial results are averaged without their log-sum-exp", ring_like,
              [](Attended& part, const ChunkCalls&) { part.lse_BSH.zero_(); }),
      of_part("lse_base_2", "the log-sum-exp comes in base 2", ring_like,
              [](Attended& part, const ChunkCalls&) { part.lse_BSH.div_(std::log(2.0)); }),
      of_part("lse_not_rotated", "every chunk is merged with the first chunk's log-sum-exp", ring_like,
              [](Attended& part, const ChunkCalls& seen) { part.lse_BSH = seen.parts.front().lse_BSH.clone(); }),
      of_part("lse_of_next_query", "log-sum-exps are one query off", ring_like,
              [](Attended& part, const ChunkCalls& seen) {
                if (seen.last()) part.lse_BSH = part.lse_BSH.roll(1, 1);
              }),
      of_part("lse_heads_and_queries_swapped", "the log-sum-exp lies as [B, H, S] and is read as [B, S, H]", ring_like,
              [](Attended& part, const ChunkCalls&) {
                part.lse_BSH = part.lse_BSH.transpose(1, 2).contiguous().view(part.lse_BSH.sizes());
              }),
  };
}

std::vector<Mutation> wrong_rounding() {
  return {
      of_part("lse_rounded_to_bf16", "log-sum-exps are rounded to bf16", ring_like,
              [](Attended& part, const ChunkCalls&) { part.lse_BSH = rounded(part.lse_BSH, at::kBFloat16); }),
      of_part("chunk_weighted_twice", "the last chunk counts double", ring_like,
              [](Attended& part, const ChunkCalls& seen) {
                if (seen.last()) part.lse_BSH.add_(std::log(2.0));
              }),
      of_part("partial_rounded_to_bf16", "partial results are rounded to bf16 before merging", ring_like,
              [](Attended& part, const ChunkCalls&) { part.out_BSHD = rounded(part.out_BSHD, at::kBFloat16); }),
      of_part("partial_rounded_to_fp32", "partial results are rounded to fp32 in an fp64 run", ring_like,
              [](Attended& part, const ChunkCalls&) { part.out_BSHD = rounded(part.out_BSHD, at::kFloat); }),
      of_part("partial_scaled", "the last chunk's result is a thousandth too large", ring_like,
              [](Attended& part, const ChunkCalls& seen) {
                if (seen.last()) part.out_BSHD.mul_(1.001);
              }),
  };
}

std::vector<Mutation> wrong_masks_and_scales() {
  return {
      of_call("softmax_scale_missing", "logits are not divided by the root of the head's width", context_parallel,
              [](AttentionCall& call, const ChunkCalls&) { call.q = call.q * std::sqrt(static_cast<double>(call.q.size(3))); }),
      of_call("softmax_scale_of_wrong_width", "logits are scaled for heads twice as wide", context_parallel,
              [](AttentionCall& call, const ChunkCalls&) { call.q = call.q / std::sqrt(2.0); }),
      of_call(
          "mask_ignored", "the local attention gets no mask", context_parallel,
          [](AttentionCall& call, const ChunkCalls&) { call.mask.reset(); }, true),
      of_call(
          "mask_of_another_prompt", "prompts are masked by one another's mask", context_parallel,
          [](AttentionCall& call, const ChunkCalls&) { call.mask = call.mask->roll(1, 0); }, true),
      of_call(
          "mask_shifted", "the mask is one token off", context_parallel,
          [](AttentionCall& call, const ChunkCalls&) { call.mask = call.mask->roll(1, 1); }, true),
      of_call(
          "mask_of_own_chunk", "the own chunk's mask is used for every chunk", ring_like,
          [](AttentionCall& call, const ChunkCalls& seen) { call.mask = fitted(*seen.calls.front().mask, call.k.size(1)); },
          true),
      of_call(
          "mask_inverted", "the last chunk's mask means the opposite", context_parallel,
          [](AttentionCall& call, const ChunkCalls& seen) {
            if (seen.last()) call.mask = call.mask->logical_not();
          },
          true),
      of_call(
          "values_of_another_prompt", "prompts take one another's values", context_parallel,
          [](AttentionCall& call, const ChunkCalls&) { call.v = call.v.roll(1, 0); }, true),
  };
}

}  // namespace

std::vector<Mutation> chunk_mutants() {
  std::vector<Mutation> all;
  for (const auto& group : {wrong_chunks(), wrong_keys(), wrong_merges(), wrong_rounding(), wrong_masks_and_scales()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace shardproof
