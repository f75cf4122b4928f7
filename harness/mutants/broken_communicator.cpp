#include "harness/mutants/broken.hpp"

namespace shardproof {
namespace {

Cargo cargo_of(Collective operation, const Tensor& sent) {
  if (sent.scalar_type() == at::kBool) return Cargo::mask;
  const bool gathers_output = operation == Collective::all_gather_v || (operation == Collective::all_gather && sent.dim() == 3);
  return gathers_output ? Cargo::output : Cargo::attention;
}

class BrokenCommunicator final : public Communicator {
 public:
  using Family = std::map<std::string, Communicator*>;  // by name: one rank's seats in all groups
  BrokenCommunicator(std::unique_ptr<Communicator> inner, CommunicatorChanges changes, int world_rank,
                     std::shared_ptr<Family> family)
      : Communicator(inner->rank(), inner->size(), inner->name()),
        inner_(std::move(inner)),
        changes_(std::move(changes)),
        world_rank_(world_rank),
        family_(std::move(family)) {
    (*family_)[name()] = inner_.get();
  }

 private:
  std::unique_ptr<Communicator> do_split(int color, int key, const std::string& label) override {
    auto child = inner_->split(color, key, label);
    return child ? std::make_unique<BrokenCommunicator>(std::move(child), changes_, world_rank_, family_) : nullptr;
  }
  void do_all_reduce(Tensor& in_place, Reduction reduction) override {
    if (changes_.all_reduce)
      changes_.all_reduce(real(), in_place, reduction);
    else
      real().all_reduce(in_place, reduction);
  }
  Tensor do_all_gather(const Tensor& tensor) override {
    return at::stack(arrived(Collective::all_gather, tensor, real().all_gather(tensor).unbind(0)));
  }
  std::vector<Tensor> do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& sizes) override {
    return arrived(Collective::all_gather_v, tensor, real().all_gather_v(tensor, sizes));
  }
  Tensor do_reduce_scatter(const Tensor& tensor) override { return real().reduce_scatter(tensor); }
  Tensor do_all_to_all(const Tensor& tensor) override {
    return at::stack(arrived(Collective::all_to_all, tensor, real().all_to_all(tensor).unbind(0)));
  }
  Tensor do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send, const std::vector<int64_t>& receive) override {
    return at::cat(arrived(Collective::all_to_all_v, flat, real().all_to_all_v(flat, send, receive).split_with_sizes(receive)));
  }
  Tensor do_send_recv(const Tensor& send, int to, int from) override {
    if (changes_.route) changes_.route(to, from, rank(), size(), sends_++);
    return arrived(Collective::send_recv, send, {real().send_recv(send, to, from)})[0].clone();
  }
  void do_broadcast(Tensor& in_place, int root) override { real().broadcast(in_place, root); }
  void do_barrier() override { real().barrier(); }
  std::vector<std::vector<int64_t>> do_exchange(const std::vector<int64_t>& values) override {
    auto lengths = real().exchange(values);
    if (changes_.lengths && size() > 1) changes_.lengths(lengths);
    return lengths;
  }

  Communicator& real() {
    const auto taken = changes_.instead.find(name());
    if (taken == changes_.instead.end() || !family_->count(taken->second)) return *inner_;
    return *family_->at(taken->second);
  }
  std::vector<Tensor> arrived(Collective operation, const Tensor& sent, std::vector<Tensor> parts) {
    if (!changes_.arrival || size() == 1) return parts;
    const Cargo cargo = cargo_of(operation, sent);
    auto& before = before_[{operation, cargo}];
    Arrival arrival{operation, cargo, rank(), size(), world_rank_, parts, before};
    changes_.arrival(arrival);
    before = parts;
    return arrival.parts;
  }

  std::unique_ptr<Communicator> inner_;
  CommunicatorChanges changes_;
  int world_rank_;
  std::shared_ptr<Family> family_;
  std::map<std::pair<Collective, Cargo>, std::vector<Tensor>> before_;
  int64_t sends_ = 0;
};

}  // namespace

FaultInjection broken_communicator(CommunicatorChanges changes) {
  FaultInjection fault;
  fault.communicator = [changes](std::unique_ptr<Communicator> inner) {
    const int rank = inner->rank();
    return std::make_unique<BrokenCommunicator>(std::move(inner), changes, rank, std::make_shared<BrokenCommunicator::Family>());
  };
  return fault;
}

}  // namespace shardproof
