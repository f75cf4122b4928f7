#pragma once

#include <cstdint>
#include <vector>

namespace shardproof::reference {

/// Sigmas of FLUX.1-dev's flow-match Euler scheduler for `steps` steps on `image_tokens` tokens:
/// linspace(1, 1/steps), shifted by exp(mu) / (exp(mu) + 1/sigma - 1) where mu is linear in the number of
/// tokens (0.5 at 256, 1.15 at 4096), then 0. Size steps + 1. Source: Esser et al. 2024, section 5.3.2,
/// with the constants of FLUX.1-dev's scheduler_config.json.
std::vector<double> flow_match_sigmas(int64_t steps, int64_t image_tokens);

}  // namespace shardproof::reference
