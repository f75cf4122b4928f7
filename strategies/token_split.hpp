#pragma once

#include "strategies/strategy.hpp"

namespace shardproof {

/// What the context-parallel strategies share. Text and image are each cut over the ring axis first and then, within a
/// ring rank's share, over the ulysses axis; a rank holds [text_r ; image_r]. Lengths follow from core/shard.hpp alone:
/// the sum of two cuts is not the cut of the sum.

/// ring · ulysses
int context_parallel_degree(const MeshShape& mesh);

/// Text plus image tokens of a rank.
int64_t local_tokens(const Request& request, const MeshShape& mesh, int rank);
int64_t local_text_tokens(const Request& request, const MeshShape& mesh, int rank);
int64_t local_image_tokens(const Request& request, const MeshShape& mesh, int rank);

/// What each member of the rank's group along `axis` brings to that axis' collective: for ulysses its own tokens, for ring
/// all tokens of its ulysses group, which it holds by then.
std::vector<int64_t> group_tokens(const Request& request, const MeshShape& mesh, int rank, Axis axis);

/// Why text and image cannot be cut evenly over ring · ulysses, or nothing. "[ring] 3969 image tokens are not divisible by ring 4"
std::optional<std::string> tokens_do_not_divide(std::string_view strategy, const Request& request, const MeshShape& mesh);

/// Why an uneven cut cannot be: a rank would hold no token at all.
std::optional<std::string> fewer_tokens_than_ranks(std::string_view strategy, const Request& request, const MeshShape& mesh);

/// The model's `_cp_plan` over one axis.
Plan token_split_plan(const ModelTraits& model, const MeshShape& mesh, Axis axis, bool uneven);

/// The gather of the model's output over one axis at the end of a forward; the ulysses axis is gathered first.
WireCost output_gather_cost(const ModelTraits& model, const Request& request, const MeshShape& mesh, Axis axis, int rank, bool uneven);

/// How attention heads lie over the ulysses axis.
struct HeadShares {
  std::vector<int64_t> q, kv;  ///< by ulysses rank
  /// Key/value heads are repeated for their query heads before they are sent: a share would otherwise cut a group of
  /// query heads that belong to one key/value head.
  bool repeat = false;
};

/// Query heads are cut as evenly as whole heads allow and key/value heads with them; ranks may get none.
HeadShares head_shares(int64_t heads, int64_t kv_heads, int parts);

}  // namespace shardproof
