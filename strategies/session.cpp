#include "strategies/session.hpp"

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/shard.hpp"
#include "strategies/attention_choice.hpp"
#include "strategies/shard_slices.hpp"
#include "strategies/split_probe.hpp"

#include <algorithm>

namespace shardproof {
namespace {

void check_entries(const Plan& plan, const ModelTraits& model) {
  for (const auto& [glob, sharding] : plan.weights)
    if (std::none_of(model.linears.begin(), model.linears.end(), [&](const auto& linear) { return glob_matches(glob, linear.name); }))
      fail_input("session", "plan entry \"{}: {}\" matches no Linear of the model", glob, sharding_text(sharding));
}

bool cuts_tokens(const Plan& plan) { return plan.mesh.degree(Axis::ring) * plan.mesh.degree(Axis::ulysses) > 1; }

/// Tokens that stay whole on every rank next to tokens that do not would be attended to once per rank.
void check_splits(const Plan& plan, const ModelTraits& model) {
  if (!cuts_tokens(plan)) return;
  for (const auto& [name, split] : model.cp_inputs)
    if (!plan.inputs.count(name)) fail_input("session", "the plan leaves input \"{}\" unsplit; the model's context-parallel plan splits it", name);
  for (const auto& [name, split] : model.cp_module_inputs)
    if (!plan.module_inputs.count(name)) fail_input("session", "the plan leaves \"{}\" unsplit; the model's context-parallel plan splits it", name);
}

/// Keys and values as the model hands them over count for every strategy.
class Metered final : public AttentionBackend {
 public:
  Metered(std::unique_ptr<AttentionBackend> inner, KeyValueMeter& meter) : inner_(std::move(inner)), meter_(meter) {}
  std::string_view name() const override { return inner_->name(); }
  AttentionTraits traits() const override { return inner_->traits(); }
  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool keep_accumulator) override {
    meter_.watch(k);
    meter_.watch(v);
    return inner_->forward(q, k, v, mask, keep_accumulator);
  }

 private:
  std::unique_ptr<AttentionBackend> inner_;
  KeyValueMeter& meter_;
};

/// The one length of the dim that the splits over these axes cut; what is gathered has it again.
int64_t whole_length(const Split& gather, const NamedTensors& inputs) {
  const auto found = inputs.find("hidden_states");
  if (found == inputs.end()) fail_input("session", "an output is gathered but there is no hidden_states");
  return found->second.size(gather.dim);
}

/// Sizes of the shares of `length` over several axes, cut one after the other, outermost first.
std::vector<int64_t> shares(const std::vector<int64_t>& lengths, int parts) {
  std::vector<int64_t> result;
  for (const int64_t length : lengths)
    for (const int64_t size : uneven_sizes(length, parts)) result.push_back(size);
  return result;
}

/// Joins the group's pieces along `dim`, in rank order.
Tensor gather_along(Communicator& group, const Tensor& piece, int64_t dim, const std::vector<int64_t>& sizes, bool uneven) {
  if (!uneven) return at::cat(group.all_gather(piece).unbind(0), dim);
  return at::cat(group.all_gather_v(piece.transpose(0, dim), sizes), 0).transpose(0, dim).contiguous();
}

}  // namespace

Session::Session(const ModelSpec& spec, const Strategy& strategy, const MeshShape& mesh, Communicator& world, WeightSource& weights,
                 at::ScalarType dtype, std::unique_ptr<AttentionBackend> attention)
    : spec_(spec), strategy_(strategy), weights_(weights), dtype_(dtype), mesh_(mesh, world), plan_(strategy.plan(spec.traits, mesh)) {
  check_entries(plan_, spec.traits);
  check_splits(plan_, spec.traits);
  change_attention(std::move(attention));
  model_ = spec.build(*this);
}

void Session::change_attention(std::unique_ptr<AttentionBackend> attention) {
  if (const auto reason = attention_unsupported(strategy_, spec_.traits, attention->name(), attention->traits(), dtype_, false))
    fail_input(strategy_.name(), "{}", *reason);
  attention_ = std::make_unique<Metered>(strategy_.attention(mesh_, std::move(attention), meter_), meter_);
}

Tensor Session::read(const std::string& name, const std::vector<int64_t>& shape, const Slice& slice, std::vector<Slice> by_rank) {
  require(weights_, name, shape);
  Tensor tensor = weights_.read(name, slice).to(dtype_);
  weight_bytes_ += static_cast<int64_t>(tensor.nbytes());
  held_[name] = {tensor, shape, slice, slice.ranges.empty() ? std::vector<Slice>{} : std::move(by_rank)};
  return tensor;
}

std::map<std::string, uint64_t> Session::replicated_hashes() const {
  std::map<std::string, uint64_t> hashes;
  for (const auto& [name, held] : held_)
    if (held.slice.ranges.empty()) hashes[name] = tensor_hash(held.tensor);
  return hashes;
}

Tensor Session::parameter(const std::string& name, const std::vector<int64_t>& shape) { return read(name, shape, {}); }

ShardedLinear Session::linear(const std::string& name, int64_t out_features, int64_t in_features, bool has_bias) {
  const Sharding sharding = plan_entry(plan_, name).sharding;
  Communicator& tp = mesh_.axis(Axis::tp);
  std::vector<Slice> weights, biases;
  for (int rank = 0; rank < tp.size(); ++rank) {
    const LinearSlices slices = linear_slices(sharding, out_features, in_features, tp.size(), rank);
    weights.push_back(slices.weight);
    biases.push_back(slices.bias);
  }
  Tensor weight = read(name + ".weight", {out_features, in_features}, weights[tp.rank()], weights);
  std::optional<Tensor> bias;
  if (has_bias) bias = read(name + ".bias", {out_features}, biases[tp.rank()], biases);
  return {name, sharding, std::move(weight), std::move(bias), &tp};
}

NamedTensors Session::cut(const NamedTensors& inputs) const {
  NamedTensors local = inputs;
  // A key mask may come as [B, 1, 1, T] too.
  if (const auto mask = local.find("encoder_hidden_states_mask"); mask != local.end() && mask->second.dim() == 4) mask->second = mask->second.flatten(1);
  for (const auto& [name, split] : plan_.inputs) {
    const auto found = local.find(name);
    if (found != local.end())
      found->second = cut_one(name, found->second, split);
    else if (!spec_.traits.optional_inputs.count(name))
      fail_input("session", "the plan splits input \"{}\", which is missing", name);
  }
  return local;
}

Tensor Session::cut_one(const std::string& name, Tensor tensor, const Split& split) const {
  if (tensor.dim() != split.expected_dims)
    fail_input("session", "the plan splits \"{}\" with {} dims, it has {}", name, split.expected_dims, tensor.dim());
  for (const Axis axis : split.axes) {
    const int64_t length = tensor.size(split.dim);
    const int degree = mesh_.shape().degree(axis);
    if (!split.uneven && !divides(length, degree))
      fail_input("session", "\"{}\": {} tokens are not divisible by {} {}", name, length, axis_name(axis), degree);
    const Range share = uneven_share(length, degree, mesh_.coordinate(axis));
    tensor = tensor.narrow(split.dim, share.begin, share.size);
  }
  return tensor;
}

Tensor Session::run(const NamedTensors& local, Probe& outer) {
  SplitProbe probe(plan_.module_inputs, [this](const std::string& name, const Tensor& whole, const Split& split) { return cut_one(name, whole, split); },
                   outer);
  const auto& axes = plan_.mesh.degrees();
  const bool by_prompt = std::any_of(axes.begin(), axes.end(), [](const auto& axis) { return axis.first == Axis::dp; });
  if (!by_prompt) {
    Tensor output = model_->forward(local, *attention_, probe);
    probe.check_all_split();
    return output;
  }
  // Data parallel runs prompt by prompt: a batched product differs in its last bits from the same prompt alone.
  const Tensor& latents = local.at("hidden_states");
  std::vector<Tensor> outputs;
  for (int64_t prompt = 0; prompt < latents.size(0); ++prompt) {
    NamedTensors one = local;
    for (const auto& [name, dims] : spec_.traits.batched_inputs)
      if (const auto found = one.find(name); found != one.end()) found->second = found->second.narrow(0, prompt, 1);
    outputs.push_back(model_->forward(one, *attention_, probe));
  }
  return outputs.empty() ? at::empty({0, latents.size(1), spec_.traits.out_channels}, latents.options()) : at::cat(outputs);
}

Tensor Session::gather(Tensor output, const NamedTensors& inputs) const {
  for (const auto& [module, split] : plan_.outputs) {
    std::vector<std::vector<int64_t>> lengths{{whole_length(split, inputs)}};  // before each axis' cut
    for (const Axis axis : split.axes) lengths.push_back(shares(lengths.back(), mesh_.shape().degree(axis)));
    for (size_t i = split.axes.size(); i-- > 0;) {  // the innermost cut is undone first
      Communicator& group = mesh_.axis(split.axes[i]);
      int64_t outer = 0;
      for (size_t j = 0; j < i; ++j) outer = outer * mesh_.shape().degree(split.axes[j]) + mesh_.coordinate(split.axes[j]);
      const auto first = lengths[i + 1].begin() + outer * group.size();
      output = gather_along(group, output, split.dim, {first, first + group.size()}, split.uneven);
    }
  }
  return output;
}

Tensor Session::forward(const NamedTensors& inputs, Probe& probe) { return gather(run(cut(inputs), probe), inputs); }

}  // namespace shardproof
