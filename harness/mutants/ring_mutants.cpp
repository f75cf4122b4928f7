#include "harness/mutants/broken.hpp"
#include "harness/mutants/mutants.hpp"
#include "kernels/merge.hpp"
#include "strategies/ring.hpp"

#include <cmath>

namespace shardproof {
namespace {

/// The ring, step by step, with places where a mutant may interfere.
struct RingFault {
  std::function<std::vector<int>(int rank, int size)> order;          ///< chunks attended to, own first
  std::function<void(Tensor& k, Tensor& v)> chunk;                    ///< changes a chunk
  std::function<void(Attended& part, const Attended& first)> part;    ///< changes a partial result before it is merged
  std::function<Attended(const std::vector<Attended>& parts)> merge;  ///< instead of the merge
};

class BrokenRing final : public AttentionBackend {
 public:
  BrokenRing(Communicator& group, std::unique_ptr<AttentionBackend> local, RingFault fault)
      : group_(group), local_(std::move(local)), fault_(std::move(fault)) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return local_->traits(); }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>&, bool) override {
    const Tensor chunks = group_.all_gather(at::stack({k, v}));
    std::vector<Attended> parts;
    for (const int index : order()) {
      Tensor key = chunks[index][0], value = chunks[index][1];
      if (fault_.chunk) fault_.chunk(key, value);
      Attended part = local_->forward(q, key, value, std::nullopt, true);
      if (fault_.part) fault_.part(part, parts.empty() ? part : parts.front());
      parts.push_back(part);
    }
    Attended result = fault_.merge ? fault_.merge(parts) : merged(parts);
    result.out_BSHD = result.out_BSHD.to(q.scalar_type());
    return result;
  }

 private:
  std::vector<int> order() const {
    if (fault_.order) return fault_.order(group_.rank(), group_.size());
    std::vector<int> chunks;
    for (int step = 0; step < group_.size(); ++step) chunks.push_back((group_.rank() + step) % group_.size());
    return chunks;
  }
  static Attended merged(const std::vector<Attended>& parts) {
    Attended result{parts[0].out_BSHD.clone(), parts[0].lse_BSH.clone()};
    for (size_t i = 1; i < parts.size(); ++i) merge_partial(result, parts[i]);
    return result;
  }

  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  RingFault fault_;
};

Mutant mutant(const std::string& name, const std::string& what, RingFault fault) {
  FaultInjection injection;
  injection.strategy = broken_strategy(
      ring(), [fault](Communicator& group, std::unique_ptr<AttentionBackend> local) { return std::make_unique<BrokenRing>(group, std::move(local), fault); },
      nullptr);
  return {"ring", name, what, injection};
}

Attended plain_average(const std::vector<Attended>& parts) {
  Tensor sum = at::zeros_like(parts[0].out_BSHD);
  for (const Attended& part : parts) sum = sum + part.out_BSHD;
  return {sum / static_cast<double>(parts.size()), parts[0].lse_BSH};
}

Attended accumulated_in_bf16(const std::vector<Attended>& parts) {
  Attended result{parts[0].out_BSHD.to(at::kBFloat16), parts[0].lse_BSH.clone()};
  for (size_t i = 1; i < parts.size(); ++i) merge_partial(result, {parts[i].out_BSHD.to(at::kBFloat16), parts[i].lse_BSH});
  return result;
}

/// A zero key and value left in as padding: weightless only where all logits are large.
void leave_pad_token(Tensor& k, Tensor& v) {
  const Tensor zero = at::zeros_like(k.narrow(1, 0, 1));
  k = at::cat({k, zero}, 1);
  v = at::cat({v, zero}, 1);
}

}  // namespace

std::vector<Mutant> ring_mutants() {
  return {
      mutant("local_attention_only", "every rank attends to its own tokens",
             {.order = [](int rank, int) { return std::vector<int>{rank}; }, .chunk = {}, .part = {}, .merge = {}}),
      mutant("last_chunk_dropped", "the last K/V chunk of the ring is never attended to",
             {.order =
                  [](int rank, int size) {
                    std::vector<int> chunks;
                    for (int step = 0; step + 1 < size; ++step) chunks.push_back((rank + step) % size);
                    return chunks;
                  },
              .chunk = {},
              .part = {},
              .merge = {}}),
      mutant("chunk_used_twice", "the own chunk is attended to again in place of the last",
             {.order =
                  [](int rank, int size) {
                    std::vector<int> chunks{rank};
                    for (int step = 1; step + 1 < size; ++step) chunks.push_back((rank + step) % size);
                    chunks.push_back(rank);
                    return chunks;
                  },
              .chunk = {},
              .part = {},
              .merge = {}}),
      mutant("plain_average", "partial outputs are averaged without their log-sum-exp", {.order = {}, .chunk = {}, .part = {}, .merge = plain_average}),
      mutant("lse_base_2", "the log-sum-exp comes in base 2",
             {.order = {}, .chunk = {}, .part = [](Attended& part, const Attended&) { part.lse_BSH = part.lse_BSH / std::log(2.0); }, .merge = {}}),
      mutant("lse_not_rotated", "every chunk is merged with the first chunk's log-sum-exp",
             {.order = {}, .chunk = {}, .part = [](Attended& part, const Attended& first) { part.lse_BSH = first.lse_BSH; }, .merge = {}}),
      mutant("bf16_accumulation", "partial outputs are rounded to bf16 before merging", {.order = {}, .chunk = {}, .part = {}, .merge = accumulated_in_bf16}),
      mutant("pad_token_left_in", "a zero pad token in each chunk is attended to", {.order = {}, .chunk = leave_pad_token, .part = {}, .merge = {}}),
  };
}

}  // namespace shardproof
