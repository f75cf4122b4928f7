#pragma once

#include "core/mesh_shape.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace shardproof {

/// How one Linear's weight [out, in] lies over the tp axis. `blocks` are fused blocks (see core/shard.hpp);
/// empty means one block, i.e. a contiguous cut.
struct Replicated {
  friend bool operator==(const Replicated&, const Replicated&) = default;
};
/// Rows (dim 0) and bias sharded; input replicated; output stays sharded on its last dim.
struct Colwise {
  std::vector<int64_t> blocks;
  friend bool operator==(const Colwise&, const Colwise&) = default;
};
/// Columns (dim 1) sharded, bias whole; input sharded on its last dim, or replicated and sliced here when
/// `split_input`; the output is summed over the axis and the bias is added once, after the sum.
struct Rowwise {
  std::vector<int64_t> blocks;
  bool split_input = false;
  friend bool operator==(const Rowwise&, const Rowwise&) = default;
};
using Sharding = std::variant<Replicated, Colwise, Rowwise>;

/// diffusers' word for a sharding: "replicated", "colwise", "rowwise", "rowwise_split_input",
/// "packed_colwise[1, 3]", "packed_rowwise[1, 3]".
std::string sharding_text(const Sharding& sharding);

/// A cut of a model input, or a gather of an output, over mesh axes.
struct Split {
  int64_t dim = 1;            ///< the sequence dim (dim 0, the batch, for data parallel)
  int64_t expected_dims = 3;  ///< rank the tensor must have; another rank is an error, never left unsplit
  std::vector<Axis> axes{};   ///< outermost first; several axes cut like one of their product
  bool uneven = false;        ///< shares may differ by one; otherwise an uneven cut is an error
  friend bool operator==(const Split&, const Split&) = default;
};

/// What a strategy does to a model, as plain data: printable, comparable, needs no device.
struct Plan {
  MeshShape mesh;
  std::map<std::string, Sharding> weights{};  ///< by module glob with at most one `*`; what is not named is replicated
  std::map<std::string, Split> inputs{};      ///< by name of the model's input
  std::map<std::string, Split> outputs{};     ///< by module whose output is gathered
  std::map<std::string, Split> module_inputs{};  ///< by module and slot: "transformer_blocks.0.image"; whole until then
  bool convert_to_fp32 = true;              ///< partial results of a ring stay in the arithmetic's dtype
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// A plan entry that matches a module: its glob and its sharding.
struct PlanEntry {
  std::string glob;
  Sharding sharding;
};

/// Whether a glob with at most one `*` (standing for one whole name component) matches a module name.
bool glob_matches(const std::string& glob, const std::string& module);

/// The entry for a module, or {"", Replicated}.
PlanEntry plan_entry(const Plan& plan, const std::string& module);

}  // namespace shardproof
