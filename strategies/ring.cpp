#include "strategies/ring.hpp"

#include "strategies/partials.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

class RingAttention final : public AttentionBackend {
 public:
  RingAttention(Communicator& group, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter, bool convert_to_fp32)
      : group_(group), local_(std::move(local)), meter_(meter), convert_to_fp32_(convert_to_fp32) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return local_->traits(); }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    const Tensor own = at::stack({k, v});
    meter_.watch(own);
    const Tensor chunks = group_.all_gather(own);  // [N, 2, B, T/N, H, D]
    meter_.watch(chunks);
    const auto masks = mask ? std::optional(group_.all_gather(mask->flatten(1))) : std::nullopt;
    Partials partials(*local_, q, convert_to_fp32_);
    for (int step = 0; step < group_.size(); ++step) {
      const int chunk = (group_.rank() + step) % group_.size();
      partials.add(chunks[chunk][0], chunks[chunk][1], masks ? std::optional((*masks)[chunk]) : std::nullopt);
    }
    return partials.result(keep_accumulator);
  }

 private:
  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  KeyValueMeter& meter_;
  bool convert_to_fp32_;
};

class Ring final : public Strategy {
 public:
  explicit Ring(bool convert_to_fp32) : convert_to_fp32_(convert_to_fp32) {}
  std::string_view name() const override { return convert_to_fp32_ ? "ring" : "ring_unconverted"; }
  std::vector<Axis> axes() const override { return {Axis::ring}; }
  bool needs_lse() const override { return true; }

  std::optional<std::string> unsupported(const ModelTraits&, const Request& request, const MeshShape& mesh) const override {
    return tokens_do_not_divide(name(), request, mesh);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
    Plan plan = token_split_plan(model, mesh, Axis::ring, false);
    plan.convert_to_fp32 = convert_to_fp32_;
    return plan;
  }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ring), coordinate = mesh.coordinate(rank, Axis::ring);
    const int64_t tokens = request.batch * group_tokens(request, mesh, rank, Axis::ring)[coordinate];
    const int64_t heads = model.kv_heads / mesh.degree(Axis::tp) / mesh.degree(Axis::ulysses);
    WireCost attention = wire::all_gather(2 * tokens * heads * model.head_dim, c10::elementSize(request.dtype), degree, coordinate);
    if (request.mask) attention += wire::all_gather(tokens, 1, degree, coordinate);
    return attention * static_cast<int64_t>(model.attentions.size()) + output_gather_cost(model, request, mesh, Axis::ring, rank, false);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return std::make_unique<RingAttention>(mesh.axis(Axis::ring), std::move(local), meter, convert_to_fp32_);
  }

 private:
  bool convert_to_fp32_;
};

}  // namespace

const Strategy& ring() {
  static const Ring strategy(true);
  return strategy;
}

const Strategy& ring_unconverted() {
  static const Ring strategy(false);
  return strategy;
}

}  // namespace shardproof
