#include "strategies/ring.hpp"

#include "core/error.hpp"
#include "kernels/merge.hpp"
#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

class RingAttention final : public AttentionBackend {
 public:
  RingAttention(Communicator& group, std::unique_ptr<AttentionBackend> local) : group_(group), local_(std::move(local)) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return {true, false, local_->traits().gqa}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    if (mask) fail_input("ring", "a key mask is not supported; accepted: no mask");
    const Tensor chunks = group_.all_gather(at::stack({k, v}));  // [N, 2, B, S/N, H, D]
    Attended result = attend(q, chunks[group_.rank()]);
    for (int step = 1; step < group_.size(); ++step) merge_partial(result, attend(q, chunks[(group_.rank() + step) % group_.size()]));
    if (!keep_accumulator) result.out_BSHD = result.out_BSHD.to(q.scalar_type());
    return result;
  }

 private:
  /// Partial results keep the accumulation dtype: rounding each would cost up to √2 in error.
  Attended attend(const Tensor& q, const Tensor& chunk) const { return local_->forward(q, chunk[0], chunk[1], std::nullopt, true); }

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
};

class Ring final : public Strategy {
  std::string_view name() const override { return "ring"; }
  std::vector<Axis> axes() const override { return {Axis::ring}; }

  std::optional<std::string> unsupported(const ModelTraits&, const Request& request, const MeshShape& mesh) const override {
    if (!request.backend.lse)
      return fmt::format("[ring] attention backend {} gives no log-sum-exp, which merging needs", request.attention);
    return tokens_do_not_divide(name(), request, Axis::ring, mesh.degree(Axis::ring));
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ring); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ring);
    const int64_t keys_and_values = 2 * local_key_elements(model, request, degree);
    const WireCost attention =
        wire::all_gather(keys_and_values, c10::elementSize(request.dtype), degree, mesh.coordinate(rank, Axis::ring));
    return attention * static_cast<int64_t>(model.attentions.size()) + output_gather_cost(model, request, mesh, Axis::ring, rank);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local) const override {
    return std::make_unique<RingAttention>(mesh.axis(Axis::ring), std::move(local));
  }
};

}  // namespace

const Strategy& ring() {
  static const Ring strategy;
  return strategy;
}

}  // namespace shardproof
