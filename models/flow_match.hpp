#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <vector>

namespace shardproof {

/// Sigmas of FLUX.1-dev's flow-match Euler scheduler with dynamic shifting: `steps` values from 1 down, shifted by the
/// number of image tokens, then 0. Size steps + 1. Source: Esser et al. 2024 (time shift), FLUX.1-dev's
/// scheduler_config.json (base_shift 0.5 at 256 tokens, max_shift 1.15 at 4096).
std::vector<double> flow_match_sigmas(int64_t steps, int64_t image_tokens);

/// One Euler step, latents + (sigma_next - sigma) * velocity, in at least single precision, in the latents' dtype.
Tensor euler_step(const Tensor& latents, const Tensor& velocity, double sigma, double sigma_next);

}  // namespace shardproof
