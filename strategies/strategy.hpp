#pragma once

#include "comm/mesh.hpp"
#include "comm/wire_cost.hpp"
#include "core/plan.hpp"
#include "kernels/attention_backend.hpp"
#include "models/model_traits.hpp"
#include "strategies/key_value_meter.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// One forward that somebody asks for.
struct Request {
  int64_t batch = 1;         ///< prompts
  int64_t image_tokens = 0;
  int64_t text_tokens = 0;
  at::ScalarType dtype = at::kFloat;
  bool mask = false;         ///< with a key-padding mask over the text
};

/// A parallel strategy: a plan (data) plus an attention decorator. It knows nothing of weights, modules or processes.
/// Every function reads all axes of the mesh, so that strategies can be multiplied (strategies/product.hpp): a part counts
/// with the heads that tp leaves a rank and with the tokens that all context-parallel axes leave it.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string_view name() const = 0;
  /// The mesh axes it uses, outermost first; none for `single`.
  virtual std::vector<Axis> axes() const = 0;
  /// Whether it merges partial results, for which a local attention backend must return its log-sum-exp.
  virtual bool needs_lse() const { return false; }
  /// Why this request cannot run on this mesh: the "failed" cell of a table. Decided from shapes, before any work.
  virtual std::optional<std::string> unsupported(const ModelTraits&, const Request&, const MeshShape&) const = 0;
  virtual Plan plan(const ModelTraits&, const MeshShape&) const = 0;
  /// Every collective of one forward as world rank `rank` sends it, exact.
  virtual WireCost wire_cost(const ModelTraits&, const Request&, const MeshShape&, int rank) const = 0;
  /// Attention over all ranks' tokens, given attention over this rank's. `mesh` and `meter` outlive the result; `meter` is
  /// told of every tensor of keys or values.
  virtual std::unique_ptr<AttentionBackend> attention(const Mesh& mesh, std::unique_ptr<AttentionBackend> local,
                                                      KeyValueMeter& meter) const = 0;
};

}  // namespace shardproof
