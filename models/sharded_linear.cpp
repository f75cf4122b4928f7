#include "models/sharded_linear.hpp"

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/linear.hpp"

namespace shardproof {

namespace {

bool split_here(const Sharding& sharding) {
  const auto* rowwise = std::get_if<Rowwise>(&sharding);
  return rowwise && rowwise->split_input;
}

}  // namespace

ShardedLinear::ShardedLinear(std::string name, Sharding sharding, Tensor weight, std::optional<Tensor> bias, Communicator* tp)
    : name_(std::move(name)), sharding_(std::move(sharding)), weight_(std::move(weight)), bias_(std::move(bias)), tp_(tp) {}

Tensor ShardedLinear::row_wise(const Tensor& x, const Rowwise& rowwise) const {
  Tensor mine = x;
  if (rowwise.split_input) {
    std::vector<Tensor> pieces;
    for (const Range& range : packed_share(x.size(-1), rowwise.blocks, tp_->size(), tp_->rank()))
      pieces.push_back(x.slice(-1, range.begin, range.end()));
    mine = at::cat(pieces, -1);
  }
  if (tp_->size() == 1) return shardproof::linear(mine, weight_, bias_);  // nothing is summed: as any other Linear
  Tensor partial = shardproof::linear(mine, weight_, std::nullopt);
  tp_->all_reduce(partial);
  return bias_ ? partial + *bias_ : partial;
}

Tensor ShardedLinear::forward(Tensor x, Tokens tokens, Probe& probe) const {
  const int64_t features = x.dim() - 1;
  Layout in{tokens}, out{tokens};
  const auto* colwise = std::get_if<Colwise>(&sharding_);
  const auto* rowwise = std::get_if<Rowwise>(&sharding_);
  if (colwise) out = {tokens, features, colwise->blocks};
  if (rowwise && !rowwise->split_input) in = {tokens, features, rowwise->blocks};

  probe.input(name_, "x", x, in);
  if (x.size(-1) != (split_here(sharding_) ? weight_.size(1) * tp_->size() : weight_.size(1)))
    fail_runtime("linear", "{} ({}): {} input features arrive, this rank's weight takes {}; its plan entry does not fit the one before it",
                 name_, sharding_text(sharding_), x.size(-1), weight_.size(1));
  const Tensor y = rowwise && tp_ ? row_wise(x, *rowwise) : shardproof::linear(x, weight_, bias_);
  probe.output(name_, "out", y, out);
  return y;
}

}  // namespace shardproof
