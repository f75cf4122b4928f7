#include "strategies/ring_p2p.hpp"

#include "strategies/partials.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

class RingP2pAttention final : public AttentionBackend {
 public:
  RingP2pAttention(Communicator& group, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter)
      : group_(group), local_(std::move(local)), meter_(meter) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return local_->traits(); }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    Partials partials(*local_, q, /*convert_to_fp32=*/true);
    Tensor chunk = at::stack({k, v});  // [2, B, T/N, H, D]
    Tensor chunk_mask = mask ? mask->flatten(1) : Tensor();  // undefined without a mask
    meter_.watch(chunk);
    for (int step = 0; step < group_.size(); ++step) {
      const bool last = step + 1 == group_.size();
      const Tensor arriving = last ? Tensor() : pass_on(chunk);
      const Tensor arriving_mask = last || !mask ? Tensor() : pass_on(chunk_mask);
      meter_.watch(arriving);
      partials.add(chunk[0], chunk[1], mask ? std::optional(chunk_mask) : std::nullopt);
      chunk = arriving;
      chunk_mask = arriving_mask;
    }
    return partials.result(keep_accumulator);
  }

 private:
  /// To the rank before, from the rank after: chunks come in the order own, r+1, r+2, … as in `ring`.
  Tensor pass_on(const Tensor& x) const {
    const int ranks = group_.size(), rank = group_.rank();
    return group_.send_recv(x, (rank + ranks - 1) % ranks, (rank + 1) % ranks);
  }

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  KeyValueMeter& meter_;
};

class RingP2p final : public Strategy {
  std::string_view name() const override { return "ring_p2p"; }
  std::vector<Axis> axes() const override { return {Axis::ring}; }
  bool needs_lse() const override { return true; }

  std::optional<std::string> unsupported(const ModelTraits&, const Request& request, const MeshShape& mesh) const override {
    return tokens_do_not_divide(name(), request, mesh);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ring, false); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ring), coordinate = mesh.coordinate(rank, Axis::ring), to = (coordinate + degree - 1) % degree;
    const int64_t tokens = request.batch * group_tokens(request, mesh, rank, Axis::ring)[coordinate];
    const int64_t heads = model.kv_heads / mesh.degree(Axis::tp) / mesh.degree(Axis::ulysses);
    WireCost step = wire::send_recv(2 * tokens * heads * model.head_dim, c10::elementSize(request.dtype), degree, coordinate, to);
    if (request.mask) step += wire::send_recv(tokens, 1, degree, coordinate, to);
    return step * (degree - 1) * static_cast<int64_t>(model.attentions.size()) +
           output_gather_cost(model, request, mesh, Axis::ring, rank, false);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return std::make_unique<RingP2pAttention>(mesh.axis(Axis::ring), std::move(local), meter);
  }
};

}  // namespace

const Strategy& ring_p2p() {
  static const RingP2p strategy;
  return strategy;
}

}  // namespace shardproof
