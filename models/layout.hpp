#pragma once

#include <cstdint>
#include <vector>

namespace shardproof {

/// Which tokens dim 1 of an activation holds. Text and image are split apart over the context-parallel
/// ranks, so `joint` on rank r is [text_r ; image_r].
enum class Tokens { none, image, text, joint };

/// How one rank's activation lies in the whole one: enough to cut the whole, or to put it back together.
struct Layout {
  Tokens tokens = Tokens::none;
  int64_t tp_dim = -1;                ///< the dim that is sharded over tp, or -1 for none
  std::vector<int64_t> blocks = {};   ///< fused blocks of that dim (empty: one block)
};

}  // namespace shardproof
