#include "strategies/ulysses.hpp"

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

/// The local backend sees every token of this rank's heads [j*H/U, (j+1)*H/U).
class UlyssesAttention final : public AttentionBackend {
 public:
  UlyssesAttention(Communicator& group, std::unique_ptr<AttentionBackend> local) : group_(group), local_(std::move(local)) {}
  std::string_view name() const override { return local_->name(); }
  // The log-sum-exp would lie with the heads, not with the tokens; nobody outside needs it.
  AttentionTraits traits() const override { return {false, false, local_->traits().gqa}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    if (mask) fail_input("ulysses", "a key mask is not supported; accepted: no mask");
    const Attended attended =
        local_->forward(gather_tokens(q), gather_tokens(k), gather_tokens(v), std::nullopt, keep_accumulator);
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

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
};

class Ulysses final : public Strategy {
  std::string_view name() const override { return "ulysses"; }
  std::vector<Axis> axes() const override { return {Axis::ulysses}; }

  std::optional<std::string> unsupported(const ModelTraits& model, const Request& request, const MeshShape& mesh) const override {
    const int degree = mesh.degree(Axis::ulysses);
    if (!divides(model.heads, degree)) return fmt::format("[ulysses] {} heads are not divisible by ulysses {}", model.heads, degree);
    if (!divides(model.kv_heads, degree))
      return fmt::format("[ulysses] {} key/value heads are not divisible by ulysses {}", model.kv_heads, degree);
    return tokens_do_not_divide(name(), request, Axis::ulysses, degree);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ulysses); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ulysses), coordinate = mesh.coordinate(rank, Axis::ulysses);
    const int64_t bytes = c10::elementSize(request.dtype);
    const WireCost query = wire::all_to_all(local_query_elements(model, request, degree), bytes, degree, coordinate);
    const WireCost key = wire::all_to_all(local_key_elements(model, request, degree), bytes, degree, coordinate);
    return (query * 2 + key * 2) * static_cast<int64_t>(model.attentions.size()) +  // q and the output; k and v
           output_gather_cost(model, request, mesh, Axis::ulysses, rank);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local) const override {
    return std::make_unique<UlyssesAttention>(mesh.axis(Axis::ulysses), std::move(local));
  }
};

}  // namespace

const Strategy& ulysses() {
  static const Ulysses strategy;
  return strategy;
}

}  // namespace shardproof
