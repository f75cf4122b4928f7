#include "strategies/ulysses.hpp"

#include "core/shard.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

/// The local backend sees every token of this rank's heads [j*H/U, (j+1)*H/U).
class UlyssesAttention final : public AttentionBackend {
 public:
  UlyssesAttention(Communicator& group, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter)
      : group_(group), local_(std::move(local)), meter_(meter) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override {
    AttentionTraits traits = local_->traits();
    traits.lse = false;  // it would lie with the heads, not with the tokens; nobody outside needs it
    return traits;
  }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    const Tensor keys = gather_tokens(k), values = gather_tokens(v);
    meter_.watch(keys);
    meter_.watch(values);
    const Attended attended = local_->forward(gather_tokens(q), keys, values, gather_mask(mask), keep_accumulator);
    return {gather_heads(attended.out_BSHD), Tensor()};
  }

 private:
  /// [B, S/U, H, D] → [B, S, H/U, D]
  Tensor gather_tokens(const Tensor& x) const {
    const int64_t ranks = group_.size(), heads = even_share(x.size(2), ranks, 0).size;
    const Tensor sent = pack_heads(x, std::vector<int64_t>(ranks, heads));
    const Tensor received = group_.all_to_all(sent.view({ranks, -1}));
    return unpack_sequence(received.flatten(), x.size(0), std::vector<int64_t>(ranks, x.size(1)), heads, x.size(3));
  }

  /// [B, S, H/U, D] → [B, S/U, H, D]
  Tensor gather_heads(const Tensor& x) const {
    const int64_t ranks = group_.size(), tokens = even_share(x.size(1), ranks, 0).size;
    const Tensor sent = pack_sequence(x, std::vector<int64_t>(ranks, tokens));
    const Tensor received = group_.all_to_all(sent.view({ranks, -1}));
    return unpack_heads(received.flatten(), x.size(0), tokens, std::vector<int64_t>(ranks, x.size(2)), x.size(3));
  }

  /// The mask in the order of the gathered keys: text_0, image_0, text_1, …
  std::optional<Tensor> gather_mask(const std::optional<Tensor>& mask) const {
    if (!mask) return std::nullopt;
    return at::cat(group_.all_gather(mask->flatten(1)).unbind(0), 1);
  }

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  KeyValueMeter& meter_;
};

class Ulysses final : public Strategy {
  std::string_view name() const override { return "ulysses"; }
  std::vector<Axis> axes() const override { return {Axis::ulysses}; }

  std::optional<std::string> unsupported(const ModelTraits& model, const Request& request, const MeshShape& mesh) const override {
    const int tp = mesh.degree(Axis::tp), degree = mesh.degree(Axis::ulysses);
    const std::string parts = tp > 1 ? fmt::format("tp {} × ulysses {}", tp, degree) : fmt::format("ulysses {}", degree);
    if (!divides(model.heads, tp * degree)) return fmt::format("[ulysses] {} heads are not divisible by {}", model.heads, parts);
    if (!divides(model.kv_heads, tp * degree))
      return fmt::format("[ulysses] {} key/value heads are not divisible by {}", model.kv_heads, parts);
    return tokens_do_not_divide(name(), request, mesh);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ulysses, false); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ulysses), coordinate = mesh.coordinate(rank, Axis::ulysses);
    const int64_t bytes = c10::elementSize(request.dtype), tokens = request.batch * local_tokens(request, mesh, rank);
    const int64_t per_head = tokens * model.head_dim, tp = mesh.degree(Axis::tp);
    const WireCost query = wire::all_to_all(per_head * model.heads / tp, bytes, degree, coordinate);
    const WireCost key = wire::all_to_all(per_head * model.kv_heads / tp, bytes, degree, coordinate);
    WireCost attention = query * 2 + key * 2;  // q and the output; k and v
    if (request.mask) attention += wire::all_gather(tokens, 1, degree, coordinate);
    return attention * static_cast<int64_t>(model.attentions.size()) +
           output_gather_cost(model, request, mesh, Axis::ulysses, rank, false);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return std::make_unique<UlyssesAttention>(mesh.axis(Axis::ulysses), std::move(local), meter);
  }
};

}  // namespace

const Strategy& ulysses() {
  static const Ulysses strategy;
  return strategy;
}

}  // namespace shardproof
