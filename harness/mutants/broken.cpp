#include "harness/mutants/broken.hpp"

namespace shardproof {
namespace {

class BrokenStrategy final : public Strategy {
 public:
  BrokenStrategy(const Strategy& base, AttentionFactory attention, PlanChange plan)
      : base_(base), attention_(std::move(attention)), change_(std::move(plan)) {}
  std::string_view name() const override { return base_.name(); }
  std::vector<Axis> axes() const override { return base_.axes(); }
  std::optional<std::string> unsupported(const ModelTraits& model, const Request& request, const MeshShape& mesh) const override {
    return base_.unsupported(model, request, mesh);
  }
  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override {
    Plan plan = base_.plan(model, mesh);
    if (change_) change_(plan);
    return plan;
  }
  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    return base_.wire_cost(model, request, mesh, rank);
  }
  bool needs_lse() const override { return base_.needs_lse(); }
  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return attention_ ? attention_(mesh.axis(base_.axes().front()), std::move(local)) : base_.attention(mesh, std::move(local), meter);
  }

 private:
  const Strategy& base_;
  AttentionFactory attention_;
  PlanChange change_;
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

class BrokenCommunicator final : public Communicator {
 public:
  BrokenCommunicator(std::unique_ptr<Communicator> inner, CommunicatorChanges changes)
      : Communicator(inner->rank(), inner->size(), inner->name()), inner_(std::move(inner)), changes_(std::move(changes)) {}

 private:
  std::unique_ptr<Communicator> do_split(int color, int key, const std::string& label) override {
    auto child = inner_->split(color, key, label);
    return child ? std::make_unique<BrokenCommunicator>(std::move(child), changes_) : nullptr;
  }
  void do_all_reduce(Tensor& in_place, Reduction reduction) override {
    if (changes_.all_reduce) changes_.all_reduce(*inner_, in_place, reduction);
    else inner_->all_reduce(in_place, reduction);
  }
  Tensor do_all_gather(const Tensor& tensor) override {
    return changes_.all_gather ? changes_.all_gather(*inner_, tensor) : inner_->all_gather(tensor);
  }
  std::vector<Tensor> do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& sizes) override {
    return changes_.all_gather_v ? changes_.all_gather_v(*inner_, tensor, sizes) : inner_->all_gather_v(tensor, sizes);
  }
  Tensor do_reduce_scatter(const Tensor& tensor) override { return inner_->reduce_scatter(tensor); }
  Tensor do_all_to_all(const Tensor& tensor) override { return inner_->all_to_all(tensor); }
  Tensor do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send, const std::vector<int64_t>& receive) override {
    return inner_->all_to_all_v(flat, send, receive);
  }
  Tensor do_send_recv(const Tensor& send, int to, int from) override { return inner_->send_recv(send, to, from); }
  void do_broadcast(Tensor& in_place, int root) override { inner_->broadcast(in_place, root); }
  void do_barrier() override { inner_->barrier(); }
  std::vector<std::vector<int64_t>> do_exchange(const std::vector<int64_t>& values) override { return inner_->exchange(values); }

  std::unique_ptr<Communicator> inner_;
  CommunicatorChanges changes_;
};

}  // namespace

const Strategy* broken_strategy(const Strategy& base, AttentionFactory attention, PlanChange plan) {
  static std::vector<std::unique_ptr<BrokenStrategy>> made;
  return made.emplace_back(std::make_unique<BrokenStrategy>(base, std::move(attention), std::move(plan))).get();
}

FaultInjection broken_weights(WeightChange change) {
  FaultInjection fault;
  fault.weights = [change](std::shared_ptr<WeightSource> inner, int rank, int ranks) {
    return std::make_shared<BrokenWeights>(std::move(inner), change, rank, ranks);
  };
  return fault;
}

FaultInjection broken_communicator(CommunicatorChanges changes) {
  FaultInjection fault;
  fault.communicator = [changes](std::unique_ptr<Communicator> inner) {
    return std::make_unique<BrokenCommunicator>(std::move(inner), changes);
  };
  return fault;
}

}  // namespace shardproof
