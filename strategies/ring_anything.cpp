#include "strategies/ring_anything.hpp"

#include "core/error.hpp"
#include "strategies/partials.hpp"
#include "strategies/token_split.hpp"

#include <algorithm>

namespace shardproof {
namespace {

/// `x` with zeros after its tokens, so that dim `dim` has `length` of them.
Tensor padded(const Tensor& x, int64_t dim, int64_t length) {
  if (x.size(dim) > length) fail_runtime("ring_anything", "a rank holds {} tokens where the longest share is said to be {}", x.size(dim), length);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[dim] = length - shape[dim];
  return at::cat({x, at::zeros(shape, x.options())}, dim);
}

class RingAnythingAttention final : public AttentionBackend {
 public:
  RingAnythingAttention(Communicator& group, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter)
      : group_(group), local_(std::move(local)), meter_(meter) {}
  std::string_view name() const override { return local_->name(); }
  AttentionTraits traits() const override { return local_->traits(); }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    const auto lengths = group_.exchange({k.size(1)});  // they cannot be worked out from the sum of text and image
    const int64_t longest = (*std::max_element(lengths.begin(), lengths.end()))[0];
    const Tensor own = padded(at::stack({k, v}), 2, longest);
    meter_.watch(own);
    const Tensor chunks = group_.all_gather(own);  // [N, 2, B, T, H, D]
    meter_.watch(chunks);
    const auto masks = mask ? std::optional(group_.all_gather(padded(mask->flatten(1), 1, longest))) : std::nullopt;
    Partials partials(*local_, q, /*convert_to_fp32=*/true);
    for (int step = 0; step < group_.size(); ++step) {
      const int chunk = (group_.rank() + step) % group_.size();
      const int64_t length = lengths[chunk][0];
      const Tensor keys_values = chunks[chunk].narrow(2, 0, length);
      partials.add(keys_values[0], keys_values[1], masks ? std::optional((*masks)[chunk].narrow(1, 0, length)) : std::nullopt);
    }
    return partials.result(keep_accumulator);
  }

 private:
  Communicator& group_;
  std::unique_ptr<AttentionBackend> local_;
  KeyValueMeter& meter_;
};

class RingAnything final : public Strategy {
  std::string_view name() const override { return "ring_anything"; }
  std::vector<Axis> axes() const override { return {Axis::ring}; }
  bool needs_lse() const override { return true; }

  std::optional<std::string> unsupported(const ModelTraits&, const Request& request, const MeshShape& mesh) const override {
    return fewer_tokens_than_ranks(name(), request, mesh);
  }

  Plan plan(const ModelTraits& model, const MeshShape& mesh) const override { return token_split_plan(model, mesh, Axis::ring, true); }

  WireCost wire_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, int rank) const override {
    const int degree = mesh.degree(Axis::ring), coordinate = mesh.coordinate(rank, Axis::ring), tp = mesh.degree(Axis::tp);
    const auto tokens = group_tokens(request, mesh, rank, Axis::ring);
    const int64_t longest = request.batch * *std::max_element(tokens.begin(), tokens.end());
    const HeadShares all = head_shares(model.heads / tp, model.kv_heads / tp, mesh.degree(Axis::ulysses));
    const int64_t heads = all.kv[mesh.coordinate(rank, Axis::ulysses)];
    WireCost attention = wire::exchange(1, degree, coordinate) +
                         wire::all_gather(2 * longest * heads * model.head_dim, c10::elementSize(request.dtype), degree, coordinate);
    if (request.mask) attention += wire::all_gather(longest, 1, degree, coordinate);
    if (heads == 0) attention = {};  // fewer heads than ulysses ranks: this ring has nothing to attend with
    return attention * static_cast<int64_t>(model.attentions.size()) + output_gather_cost(model, request, mesh, Axis::ring, rank, true);
  }

  std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local, KeyValueMeter& meter) const override {
    return std::make_unique<RingAnythingAttention>(mesh.axis(Axis::ring), std::move(local), meter);
  }
};

}  // namespace

const Strategy& ring_anything() {
  static const RingAnything strategy;
  return strategy;
}

}  // namespace shardproof
