#pragma once

#include "core/plan.hpp"
#include "harness/row.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// Where it went wrong: the first module that left its gate (a module inside a block before the block, a block before the
/// end), on which rank, and the plan entries that touch it.
FirstFailure localise(const std::vector<Comparison>& comparisons, const Plan& plan);

/// "transformer_blocks.0.attn.to_out.0 (out): 3.1e-01 over 1.0e-12 on rank 1; plan: …"
std::string failure_text(const FirstFailure& failure, const std::vector<Comparison>& comparisons);

}  // namespace shardproof
