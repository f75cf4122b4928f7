#include "reference/flow_match.hpp"

#include <cmath>

namespace shardproof::reference {

std::vector<double> flow_match_sigmas(int64_t steps, int64_t image_tokens) {
  const double mu = 0.5 + (1.15 - 0.5) * static_cast<double>(image_tokens - 256) / (4096 - 256);
  std::vector<double> sigmas;
  for (int64_t i = 0; i < steps; ++i) {
    const double last = 1.0 / static_cast<double>(steps);
    const double sigma = steps == 1 ? 1.0 : 1.0 + (last - 1.0) * static_cast<double>(i) / static_cast<double>(steps - 1);
    sigmas.push_back(std::exp(mu) / (std::exp(mu) + (1 / sigma - 1)));
  }
  sigmas.push_back(0.0);
  return sigmas;
}

}  // namespace shardproof::reference
