#include "harness/mutants/broken.hpp"

#include "strategies/token_split.hpp"

namespace shardproof {
namespace {

class BrokenChunks final : public AttentionBackend {
 public:
  BrokenChunks(std::unique_ptr<AttentionBackend> inner, ChunkChange change, size_t expected)
      : inner_(std::move(inner)), change_(std::move(change)) {
    seen_.expected = expected;
  }
  std::string_view name() const override { return inner_->name(); }
  AttentionTraits traits() const override { return inner_->traits(); }
  void begin() {
    seen_.before = std::move(seen_.parts);
    seen_.parts.clear();
    seen_.calls.clear();
  }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep) override {
    AttentionCall call{q, k, v, mask};
    seen_.calls.push_back(call);
    if (change_.call) change_.call(call, seen_);
    Attended part = inner_->forward(call.q, call.k, call.v, call.mask, keep);
    seen_.parts.push_back({part.out_BSHD.clone(), part.lse_BSH.defined() ? part.lse_BSH.clone() : Tensor()});
    if (change_.part) change_.part(part, seen_);
    return part;
  }

 private:
  std::unique_ptr<AttentionBackend> inner_;
  ChunkChange change_;
  ChunkCalls seen_;
};

class BrokenAttention final : public AttentionBackend {
 public:
  BrokenAttention(std::unique_ptr<AttentionBackend> inner, BrokenChunks& chunks, AttentionChange change, AttentionSite site)
      : inner_(std::move(inner)), chunks_(chunks), change_(std::move(change)), site_(std::move(site)) {}
  std::string_view name() const override { return inner_->name(); }
  AttentionTraits traits() const override { return inner_->traits(); }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep) override {
    AttentionCall call{q, k, v, mask};
    chunks_.begin();
    if (change_.instead) return {change_.instead(call, site_), Tensor()};
    if (change_.call) change_.call(call, site_);
    Attended attended = inner_->forward(call.q, call.k, call.v, call.mask, keep);
    const Tensor right = attended.out_BSHD.clone();
    if (change_.result) change_.result(attended.out_BSHD, site_);
    site_.previous = right;
    return attended;
  }

 private:
  std::unique_ptr<AttentionBackend> inner_;
  BrokenChunks& chunks_;  // inside inner_
  AttentionChange change_;
  AttentionSite site_;
};

class BrokenStrategy final : public Strategy {
 public:
  BrokenStrategy(const FaultSite& site, ChunkChange chunks, AttentionChange attention, PlanChange plan)
      : base_(site.strategy),
        shape_(site.shape),
        chunks_(std::move(chunks)),
        attention_(std::move(attention)),
        plan_(std::move(plan)) {}
  std::string_view name() const override { return base_.name(); }
  std::vector<Axis> axes() const override { return base_.axes(); }
  bool needs_lse() const override { return base_.needs_lse(); }
  std::optional<std::string> unsupported(const ModelTraits& model, const Request& request, const MeshShape& mesh) const override {
    return base_.unsupported(model, request, mesh);
  }
  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
    Plan plan = base_.plan(model, mesh);
    if (plan_) plan_(plan);
    return plan;
  }
  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    return base_.wire_cost(model, request, mesh, rank);
  }
  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local,
                                              KeyValueMeter& meter) const override {
    auto chunks = std::make_unique<BrokenChunks>(std::move(local), chunks_, mesh.shape().degree(Axis::ring));
    BrokenChunks& inner = *chunks;
    AttentionSite site{mesh, inner, 0, {}, {}};
    const Request request{shape_.batch, shape_.image_tokens(), shape_.text_tokens};
    for (int rank = 0; rank < mesh.world().size(); ++rank) {
      site.all_text.push_back(local_text_tokens(request, mesh.shape(), rank));
      site.all_image.push_back(local_image_tokens(request, mesh.shape(), rank));
    }
    site.text_tokens = site.all_text[mesh.world().rank()];
    return std::make_unique<BrokenAttention>(base_.attention(mesh, std::move(chunks), meter), inner, attention_, std::move(site));
  }

 private:
  const Strategy& base_;
  Shape shape_;
  ChunkChange chunks_;
  AttentionChange attention_;
  PlanChange plan_;
};

class BrokenWeights final : public WeightSource {
 public:
  BrokenWeights(std::shared_ptr<WeightSource> inner, WeightChange change, int rank, int ranks)
      : inner_(std::move(inner)), change_(std::move(change)), rank_(rank), ranks_(ranks) {}
  std::vector<std::string> names() const override { return inner_->names(); }
  const TensorInfo* find(const std::string& name) const override { return inner_->find(name); }
  Tensor read(const std::string& name, const Slice& slice) override { return change_(*inner_, name, slice, rank_, ranks_); }
  int64_t bytes_read() const override { return inner_->bytes_read(); }
  std::string hash() const override { return inner_->hash(); }

 private:
  std::shared_ptr<WeightSource> inner_;
  WeightChange change_;
  int rank_, ranks_;
};

FaultInjection broken_strategy(const FaultSite& site, ChunkChange chunks, AttentionChange attention, PlanChange plan) {
  FaultInjection fault;
  fault.strategy = std::make_shared<BrokenStrategy>(site, std::move(chunks), std::move(attention), std::move(plan));
  return fault;
}

}  // namespace

FaultInjection broken_chunks(const FaultSite& site, ChunkChange change) {
  return broken_strategy(site, std::move(change), {}, nullptr);
}

FaultInjection broken_attention(const FaultSite& site, AttentionChange change) {
  return broken_strategy(site, {}, std::move(change), nullptr);
}

FaultInjection broken_plan(const FaultSite& site, PlanChange change) { return broken_strategy(site, {}, {}, std::move(change)); }

FaultInjection broken_weights(WeightChange change) {
  FaultInjection fault;
  fault.weights = [change](std::shared_ptr<WeightSource> inner, int rank, int ranks) {
    return std::make_shared<BrokenWeights>(std::move(inner), change, rank, ranks);
  };
  return fault;
}

}  // namespace shardproof
