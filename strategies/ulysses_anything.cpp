#include "strategies/ulysses_anything.hpp"

#include "core/dtype.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

std::vector<int64_t> times(std::vector<int64_t> counts, int64_t factor) {
  for (int64_t& count : counts) count *= factor;
  return counts;
}

class UlyssesAnythingAttention final : public AttentionBackend {
 public:
  UlyssesAnythingAttention(Communicator& group, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter)
      : group_(group), local_(std::move(local)), meter_(meter) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override {
    AttentionTraits traits = local_->traits();
    traits.lse = false;  // it would lie with the heads, not with the tokens
    return traits;
  }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    std::vector<int64_t> queries, keys;  // by rank; they cannot be worked out from the sum of text and image
    for (const auto& lengths : group_.exchange({q.size(1), k.size(1)})) {
      queries.push_back(lengths[0]);
      keys.push_back(lengths[1]);
    }
    const HeadShares heads = head_shares(q.size(2), k.size(2), group_.size());
    const int64_t repeat = heads.repeat ? q.size(2) / k.size(2) : 1;
    const Tensor all_q = gather_tokens(q, queries, heads.q);
    const Tensor all_k = gather_tokens(k.repeat_interleave(repeat, 2), keys, heads.kv);
    const Tensor all_v = gather_tokens(v.repeat_interleave(repeat, 2), keys, heads.kv);
    meter_.watch(all_k);
    meter_.watch(all_v);
    const auto all_mask = gather_mask(mask, keys);
    const bool idle = all_q.size(2) == 0;  // more ranks than heads
    const Tensor out = idle ? at::empty_like(all_q, keep_accumulator ? accumulate_dtype(q.scalar_type()) : q.scalar_type())
                            : local_->forward(all_q, all_k, all_v, all_mask, keep_accumulator).out_BSHD;
    return {gather_heads(out, queries, heads.q), Tensor()};
  }

 private:
  /// [B, S_r, H, D] → [B, Σ S, H_r, D]
  Tensor gather_tokens(const Tensor& x, const std::vector<int64_t>& lengths, const std::vector<int64_t>& heads) const {
    const int64_t item = x.size(0) * x.size(3), mine = heads[group_.rank()];
    const Tensor received =
        group_.all_to_all_v(pack_heads(x, heads), times(heads, item * x.size(1)), times(lengths, item * mine));
    return unpack_sequence(received, x.size(0), lengths, mine, x.size(3));
  }

  /// [B, Σ S, H_r, D] → [B, S_r, H, D]
  Tensor gather_heads(const Tensor& x, const std::vector<int64_t>& lengths, const std::vector<int64_t>& heads) const {
    const int64_t item = x.size(0) * x.size(3), mine = lengths[group_.rank()];
    const Tensor received =
        group_.all_to_all_v(pack_sequence(x, lengths), times(lengths, item * x.size(2)), times(heads, item * mine));
    return unpack_heads(received, x.size(0), mine, heads, x.size(3));
  }

  std::optional<Tensor> gather_mask(const std::optional<Tensor>& mask, const std::vector<int64_t>& lengths) const {
    if (!mask) return std::nullopt;
    return at::cat(group_.all_gather_v(mask->flatten(1).t(), lengths), 0).t();
  }

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  KeyValueMeter& meter_;
};

class UlyssesAnything final : public Strategy {
  std::string_view name() const override { return "ulysses_anything"; }
  std::vector<Axis> axes() const override { return {Axis::ulysses}; }

  std::optional<std::string> unsupported(const ModelTraits&, const Request& request, const MeshShape& mesh) const override {
    return fewer_tokens_than_ranks(name(), request, mesh);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ulysses, true); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ulysses), coordinate = mesh.coordinate(rank, Axis::ulysses), tp = mesh.degree(Axis::tp);
    const int64_t bytes = c10::elementSize(request.dtype), item = request.batch * model.head_dim;
    const auto tokens = group_tokens(request, mesh, rank, Axis::ulysses);
    const HeadShares heads = head_shares(model.heads / tp, model.kv_heads / tp, degree);
    const int64_t mine = tokens[coordinate];
    WireCost attention = wire::exchange(2, degree, coordinate) +
                         wire::all_to_all_v(times(heads.q, item * mine), bytes, coordinate) +
                         wire::all_to_all_v(times(heads.kv, item * mine), bytes, coordinate) * 2 +
                         wire::all_to_all_v(times(tokens, item * heads.q[coordinate]), bytes, coordinate);
    if (request.mask) attention += wire::all_gather_v(request.batch * mine, 1, degree, coordinate);
    return attention * static_cast<int64_t>(model.attentions.size()) +
           output_gather_cost(model, request, mesh, Axis::ulysses, rank, true);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return std::make_unique<UlyssesAnythingAttention>(mesh.axis(Axis::ulysses), std::move(local), meter);
  }
};

}  // namespace

const Strategy& ulysses_anything() {
  static const UlyssesAnything strategy;
  return strategy;
}

}  // namespace shardproof
