#include "models/sharded_norm.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace shardproof {

Tensor rms_norm_across(const Tensor& x, const Tensor& weight, double eps, int64_t width, Communicator& tp) {
  if (weight.dim() != 1 || weight.size(0) != x.size(-1))
    fail_input("norm", "the weight is {}; [{}] is needed: this rank's share", shape_text(weight.sizes()), x.size(-1));
  if (width != x.size(-1) * tp.size())
    fail_input("norm", "a norm over {} features has {} on this rank of {}; accepted: their product", width, x.size(-1), tp.size());
  const Tensor wide = x.to(accumulate_dtype(x.scalar_type()));
  Tensor sum = wide.square().sum(-1, true);
  tp.all_reduce(sum);
  return (wide / (sum / static_cast<double>(width) + eps).sqrt() * weight.to(wide.scalar_type())).to(x.scalar_type());
}

}  // namespace shardproof
