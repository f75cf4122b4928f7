#include "models/flow_match.hpp"

#include <cmath>

namespace shardproof {

std::vector<double> flow_match_sigmas(int64_t steps, int64_t image_tokens) {
  constexpr double base_shift = 0.5, max_shift = 1.15, base_tokens = 256, max_tokens = 4096;
  const double slope = (max_shift - base_shift) / (max_tokens - base_tokens);
  const double shift = std::exp(base_shift + slope * (static_cast<double>(image_tokens) - base_tokens));
  std::vector<double> sigmas;
  for (int64_t i = steps; i > 0; --i) {
    const double unshifted = static_cast<double>(i) / static_cast<double>(steps);
    sigmas.push_back(shift * unshifted / (1 + (shift - 1) * unshifted));
  }
  sigmas.push_back(0);
  return sigmas;
}

Tensor euler_step(const Tensor& latents, const Tensor& velocity, double sigma, double sigma_next) {
  const auto wide = latents.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (latents.to(wide) + velocity.to(wide) * (sigma_next - sigma)).to(latents.scalar_type());
}

}  // namespace shardproof
