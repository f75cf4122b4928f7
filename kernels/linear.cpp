#include "kernels/linear.hpp"

#include "core/error.hpp"
#include "kernels/views.hpp"

namespace shardproof {

Tensor linear(const Tensor& x, const Tensor& weight_OI, const std::optional<Tensor>& bias_O) {
  check_float("linear", "x", x);
  check_float("linear", "weight", weight_OI);
  if (weight_OI.dim() != 2) fail_input("linear", "weight is {}; [O, I] is needed", shape_text(weight_OI.sizes()));
  if (x.dim() < 1 || x.size(-1) != weight_OI.size(1))
    fail_input("linear", "x {} does not fit weight {}", shape_text(x.sizes()), shape_text(weight_OI.sizes()));
  check_operand("linear", "weight", weight_OI, x.scalar_type(), weight_OI.sizes());
  if (bias_O) check_operand("linear", "bias", *bias_O, x.scalar_type(), {weight_OI.size(0)});
  return at::linear(x, weight_OI, bias_O ? *bias_O : Tensor());
}

}  // namespace shardproof
