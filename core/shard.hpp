#pragma once

#include <cstdint>
#include <vector>

namespace shardproof {

/// A half-open run of whole elements, [begin, begin + size).
struct Range {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t end() const { return begin + size; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// All shard arithmetic rests on these few functions; nothing else divides a length by a number of ranks.

/// The share of `rank` when `length` is cut into `parts` runs whose sizes differ by at most one, the first
/// `length % parts` runs holding one more (torch.tensor_split). Empty shares are allowed.
Range uneven_share(int64_t length, int64_t parts, int64_t rank);

/// Sizes of all shares of `uneven_share`, in rank order.
std::vector<int64_t> uneven_sizes(int64_t length, int64_t parts);

bool divides(int64_t length, int64_t parts);

/// The share of `rank` of an even cut; input Error unless `parts` divides `length`.
Range even_share(int64_t length, int64_t parts, int64_t rank);

/// Sizes of fused blocks in elements: `blocks` are absolute sizes when their sum is `length`, otherwise
/// proportions whose sum divides it. Input Error when neither holds or a block is not positive.
std::vector<int64_t> block_sizes(int64_t length, const std::vector<int64_t>& blocks);

/// What `rank` holds of a dimension of fused blocks: its even share of each block, in block order.
/// An empty `blocks` means one block. Input Error that names the block that `parts` does not divide.
std::vector<Range> packed_share(int64_t length, const std::vector<int64_t>& blocks, int64_t parts, int64_t rank);

/// Number of elements in a list of ranges.
int64_t total_size(const std::vector<Range>& ranges);

}  // namespace shardproof
