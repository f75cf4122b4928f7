#include "core/shard.hpp"
#include "harness/mutants/broken.hpp"
#include "harness/mutants/mutants.hpp"
#include "strategies/ulysses.hpp"

namespace shardproof {
namespace {

/// Changes what goes into or comes out of the real decorator, or replaces the exchange.
struct UlyssesFault {
  std::function<void(Tensor& q, Tensor& k, Tensor& v, Communicator& group)> before;
  std::function<Tensor(const Tensor& out, Communicator& group)> after;
  bool exchange = true;
};

class BrokenUlysses final : public AttentionBackend {
 public:
  BrokenUlysses(Communicator& group, std::unique_ptr<AttentionBackend> inner, UlyssesFault fault)
      : group_(group), inner_(std::move(inner)), fault_(std::move(fault)) {}
  std::string_view name() const override { return inner_->name(); }
  AttentionTraits traits() const override { return inner_->traits(); }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep) override {
    Tensor query = q, key = k, value = v;
    if (fault_.before) fault_.before(query, key, value, group_);
    Attended attended = inner_->forward(query, key, value, mask, keep);
    if (fault_.after) attended.out_BSHD = fault_.after(attended.out_BSHD, group_);
    return attended;
  }

 private:
  Communicator& group_;
  std::unique_ptr<AttentionBackend> inner_;
  UlyssesFault fault_;
};

/// The real decorator needs a mesh; its exchange is rebuilt here from the group's collectives.
class Exchange final : public AttentionBackend {
 public:
  Exchange(Communicator& group, std::unique_ptr<AttentionBackend> local) : group_(group), local_(std::move(local)) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return local_->traits(); }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep) override {
    const Attended attended = local_->forward(tokens(q), tokens(k), tokens(v), mask, keep);
    const Tensor received = group_.all_to_all(at::stack(attended.out_BSHD.chunk(group_.size(), 1)));
    return {at::cat(received.unbind(0), 2), Tensor()};
  }

 private:
  Tensor tokens(const Tensor& x) const { return at::cat(group_.all_to_all(at::stack(x.chunk(group_.size(), 2))).unbind(0), 1); }
  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
};

Mutant mutant(const std::string& name, const std::string& what, UlyssesFault fault) {
  FaultInjection injection;
  injection.strategy = broken_strategy(
      ulysses(),
      [fault](Communicator& group, std::unique_ptr<AttentionBackend> local) -> std::unique_ptr<AttentionBackend> {
        if (fault.exchange) local = std::make_unique<Exchange>(group, std::move(local));
        return std::make_unique<BrokenUlysses>(group, std::move(local), fault);
      },
      nullptr);
  return {"ulysses", name, what, injection};
}

Tensor swapped_halves(const Tensor& x, int64_t dim) { return at::cat({x.slice(dim, x.size(dim) / 2), x.slice(dim, 0, x.size(dim) / 2)}, dim); }

Mutant with_inputs(const std::string& name, const std::string& what, decltype(FaultInjection::inputs) change) {
  FaultInjection injection;
  injection.inputs = std::move(change);
  return {"ulysses", name, what, injection};
}

/// Every rank's share of the ids becomes the first rank's.
void first_share_everywhere(NamedTensors& inputs, const std::string& name, int ranks) {
  Tensor& ids = inputs.at(name);
  ids = ids.narrow(0, 0, even_share(ids.size(0), ranks, 0).size).repeat({ranks, 1});
}

}  // namespace

std::vector<Mutant> ulysses_mutants() {
  CommunicatorChanges rotated_gather;
  rotated_gather.all_gather = [](Communicator& inner, const Tensor& x) { return inner.all_gather(x).roll(1, 0); };
  return {
      mutant("local_attention_only", "every rank attends to its own tokens", {{}, {}, false}),
      mutant("heads_permuted", "the all-to-all hands out the heads of q in another order than those of k and v",
             {[](Tensor& q, Tensor&, Tensor&, Communicator&) { q = q.roll(1, 2); }, {}, true}),
      mutant("result_heads_permuted", "the inverse all-to-all joins the heads in another order",
             {{}, [](const Tensor& out, Communicator&) { return out.roll(1, 2); }, true}),
      mutant("key_order_differs", "keys and values are gathered in different token orders",
             {[](Tensor&, Tensor& k, Tensor&, Communicator&) { k = k.flip(1); }, {}, true}),
      mutant("text_image_swapped", "text and image change places after the inverse all-to-all",
             {{}, [](const Tensor& out, Communicator&) { return swapped_halves(out, 1); }, true}),
      with_inputs("image_ids_not_split", "every rank rotates its image tokens by the first rank's position ids",
                  [](NamedTensors& inputs, int, int ranks, int64_t) { first_share_everywhere(inputs, "img_ids", ranks); }),
      with_inputs("text_ids_not_split", "every rank rotates its text tokens by the first rank's position ids",
                  [](NamedTensors& inputs, int, int ranks, int64_t) { first_share_everywhere(inputs, "txt_ids", ranks); }),
      with_inputs("one_rank_other_latents", "rank 1 starts from other latents",
                  [](NamedTensors& inputs, int rank, int, int64_t) {
                    if (rank == 1) inputs.at("hidden_states") = inputs.at("hidden_states").flip(2);
                  }),
      with_inputs("one_rank_behind", "rank 1 is one denoising step behind: its timestep is the one before",
                  [](NamedTensors& inputs, int rank, int, int64_t) {
                    if (rank == 1) inputs.at("timestep") = inputs.at("timestep") * 1.25;
                  }),
      {"ulysses", "gather_rotated", "the output is gathered one rank off", broken_communicator(rotated_gather)},
  };
}

}  // namespace shardproof
