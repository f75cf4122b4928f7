#include "core/shard.hpp"
#include "harness/mutants/broken.hpp"

namespace shardproof {
namespace {

const std::vector<std::string> weights_cut{"tp"};

Mutation with_plan(std::string name, std::string what, PlanChange change) {
  return {std::move(name), std::move(what), weights_cut, [change](const FaultSite& site) { return broken_plan(site, change); }};
}

Mutation with_all_reduce(std::string name, std::string what, decltype(CommunicatorChanges::all_reduce) change) {
  return {std::move(name), std::move(what), weights_cut, [change](const FaultSite&) {
            CommunicatorChanges changes;
            changes.all_reduce = change;
            return broken_communicator(changes);
          }};
}

Mutation with_weights(std::string name, std::string what, WeightChange change) {
  return {std::move(name), std::move(what), weights_cut, [change](const FaultSite&) { return broken_weights(change); }};
}

/// One row-wise bias, so that the fault is as small as it can be.
bool one_bias(const std::string& name) { return name == "transformer_blocks.0.attn.to_out.0.bias"; }

/// The slice that the next rank should have got.
Slice next_ranks_slice(const Slice& slice, int rank, int ranks) {
  Slice moved = slice;
  for (Range& range : moved.ranges) range.begin += ((rank + 1) % ranks - rank) * range.size;
  return moved;
}

Mutation sum_rounded(std::string name, std::string what, at::ScalarType dtype) {
  return with_all_reduce(std::move(name), std::move(what), [dtype](Communicator& inner, Tensor& x, Reduction) {
    Tensor rounded = x.to(dtype);
    inner.all_reduce(rounded);
    x.copy_(rounded);
  });
}

std::vector<Mutation> wrong_sums() {
  return {
      with_all_reduce("all_reduce_missing", "partial sums are never added up", [](Communicator&, Tensor&, Reduction) {}),
      with_all_reduce("all_reduce_max", "partial sums are combined by maximum",
                      [](Communicator& inner, Tensor& x, Reduction) { inner.all_reduce(x, Reduction::max); }),
      with_all_reduce("all_reduce_twice", "partial sums are added up twice",
                      [](Communicator& inner, Tensor& x, Reduction) {
                        inner.all_reduce(x);
                        inner.all_reduce(x);
                      }),
      with_all_reduce("rank_left_out", "the last rank's partial sum is lost",
                      [](Communicator& inner, Tensor& x, Reduction) {
                        if (inner.rank() == inner.size() - 1) x.zero_();
                        inner.all_reduce(x);
                      }),
      sum_rounded("sum_rounded_to_bf16", "partial sums are added up in bf16", at::kBFloat16),
      sum_rounded("sum_rounded_to_fp32", "partial sums are added up in fp32 in an fp64 run", at::kFloat),
      with_all_reduce("mean_for_sum", "partial sums are averaged",
                      [](Communicator& inner, Tensor& x, Reduction) {
                        inner.all_reduce(x);
                        x.div_(inner.size());
                      }),
      with_all_reduce("one_rank_keeps_its_own", "rank 1 does not take the sum it helped to make",
                      [](Communicator& inner, Tensor& x, Reduction) {
                        Tensor sum = x.clone();
                        inner.all_reduce(sum);
                        if (inner.rank() != 1) x.copy_(sum);
                      }),
  };
}

std::vector<Mutation> wrong_biases() {
  return {
      with_weights("bias_added_n_times", "a row-wise bias is added on every rank before the sum",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int, int ranks) {
                     const Tensor value = source.read(name, slice);
                     return one_bias(name) ? value * ranks : value;
                   }),
      with_weights("bias_missing_on_one_rank", "one rank adds no row-wise bias",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
                     const Tensor value = source.read(name, slice);
                     return one_bias(name) && rank == 1 ? at::zeros_like(value) : value;
                   }),
  };
}

std::vector<Mutation> wrong_slices() {
  return {
      with_weights("wrong_ranks_query_slice", "each rank holds the next rank's heads of one to_q",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int ranks) {
                     const bool query = name.starts_with("transformer_blocks.0.attn.to_q.");
                     return source.read(name, query ? next_ranks_slice(slice, rank, ranks) : slice);
                   }),
      with_weights("key_slice_of_rank_0", "every rank holds rank 0's heads of one to_k",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
                     Slice own = slice;
                     if (name.starts_with("single_transformer_blocks.0.attn.to_k."))
                       for (Range& range : own.ranges) range.begin -= rank * range.size;
                     return source.read(name, own);
                   }),
      with_weights("norm_of_other_head", "one rank normalises its queries with weights in another order",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
                     const Tensor value = source.read(name, slice);
                     return rank == 1 && name == "transformer_blocks.0.attn.norm_q.weight" ? value.flip(0) : value;
                   }),
      with_weights("weight_rounded_to_fp16", "one rank's share of a weight went through fp16",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
                     const Tensor value = source.read(name, slice);
                     const bool one = rank == 1 && name == "transformer_blocks.0.ff.net.2.weight";
                     return one ? value.to(at::kHalf).to(value.scalar_type()) : value;
                   }),
      with_weights("column_bias_of_rank_0", "a column-wise bias is rank 0's on every rank",
                   [](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
                     Slice own = slice;
                     if (name == "single_transformer_blocks.0.proj_mlp.bias")
                       for (Range& range : own.ranges) range.begin -= rank * range.size;
                     return source.read(name, own);
                   }),
  };
}

std::vector<Mutation> wrong_entries() {
  const std::string packed = "single_transformer_blocks.*.proj_out";
  return {
      with_plan("packed_cut_contiguously", "the packed row-wise weight is cut as if it were one block",
                [packed](Plan& plan) { plan.weights.at(packed) = Rowwise{}; }),
      with_plan("blocks_in_wrong_order", "the packed blocks are taken in the other order",
                [packed](Plan& plan) {
                  auto& blocks = std::get<Rowwise>(plan.weights.at(packed)).blocks;
                  std::swap(blocks.front(), blocks.back());
                }),
      with_plan("colwise_rowwise_swapped", "a feed-forward's column-wise and row-wise entries are swapped",
                [](Plan& plan) {
                  plan.weights.at("transformer_blocks.*.ff.net.0.proj") = Rowwise{{}, true};
                  plan.weights.at("transformer_blocks.*.ff.net.2") = Colwise{};
                }),
      with_plan("norm_is_colwise", "the modulation of a block is cut by rank",
                [](Plan& plan) { plan.weights["transformer_blocks.*.norm1.linear"] = Colwise{}; }),
      with_plan("row_wise_entry_missing", "one row-wise entry is not in the plan",
                [](Plan& plan) { plan.weights.erase("transformer_blocks.*.attn.to_add_out"); }),
  };
}

}  // namespace

std::vector<Mutation> tp_mutants() {
  std::vector<Mutation> all;
  for (const auto& group : {wrong_sums(), wrong_biases(), wrong_slices(), wrong_entries()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace shardproof
