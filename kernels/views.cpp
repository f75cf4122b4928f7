#include "kernels/views.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace shardproof {

void check_float(std::string_view subsystem, std::string_view what, const Tensor& tensor) {
  if (!tensor.defined()) fail_input(subsystem, "{} is undefined; a tensor is needed", what);
  if (!tensor.device().is_cpu()) fail_input(subsystem, "{} is on {}; accepted: cpu", what, tensor.device().str());
  const auto dtype = tensor.scalar_type();
  if (dtype != at::kDouble && dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf)
    fail_input(subsystem, "{} is {}; accepted: fp64, fp32, bf16, fp16", what, dtype_name(dtype));
}

void check_operand(std::string_view subsystem, std::string_view what, const Tensor& tensor, at::ScalarType dtype,
                   at::IntArrayRef shape) {
  check_float(subsystem, what, tensor);
  if (tensor.scalar_type() != dtype)
    fail_input(subsystem, "{} is {}; {} is needed", what, dtype_name(tensor.scalar_type()), dtype_name(dtype));
  if (tensor.sizes() != shape)
    fail_input(subsystem, "{} is {}; {} is needed", what, shape_text(tensor.sizes()), shape_text(shape));
}

}  // namespace shardproof
