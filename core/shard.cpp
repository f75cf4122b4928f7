#include "core/shard.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

void check(int64_t length, int64_t parts, int64_t rank) {
  if (length < 0 || parts < 1 || rank < 0 || rank >= parts)
    fail_input("shard", "rank {} of {} parts of length {} does not exist", rank, parts, length);
}

}  // namespace

Range uneven_share(int64_t length, int64_t parts, int64_t rank) {
  check(length, parts, rank);
  const int64_t quotient = length / parts, remainder = length % parts;
  return {rank * quotient + std::min(rank, remainder), quotient + (rank < remainder ? 1 : 0)};
}

std::vector<int64_t> uneven_sizes(int64_t length, int64_t parts) {
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < parts; ++rank) sizes.push_back(uneven_share(length, parts, rank).size);
  return sizes;
}

bool divides(int64_t length, int64_t parts) { return parts > 0 && length % parts == 0; }

Range even_share(int64_t length, int64_t parts, int64_t rank) {
  check(length, parts, rank);
  if (!divides(length, parts)) fail_input("shard", "length {} is not divisible by {}", length, parts);
  return uneven_share(length, parts, rank);
}

std::vector<int64_t> block_sizes(int64_t length, const std::vector<int64_t>& blocks) {
  if (blocks.empty()) return {length};
  const int64_t sum = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
  if (*std::min_element(blocks.begin(), blocks.end()) < 1 || !divides(length, sum))
    fail_input("shard", "blocks [{}] (sum {}) do not divide a dimension of {}", fmt::join(blocks, ", "), sum, length);
  std::vector<int64_t> sizes;
  for (const int64_t block : blocks) sizes.push_back(block * (length / sum));
  return sizes;
}

std::vector<Range> packed_share(int64_t length, const std::vector<int64_t>& blocks, int64_t parts, int64_t rank) {
  check(length, parts, rank);
  std::vector<Range> shares;
  int64_t begin = 0, index = 0;
  for (const int64_t size : block_sizes(length, blocks)) {
    if (!divides(size, parts))
      fail_input("shard", "block {} (size {}) of a dimension of {} is not divisible by {}", index, size, length, parts);
    const Range share = even_share(size, parts, rank);
    shares.push_back({begin + share.begin, share.size});
    begin += size;
    ++index;
  }
  return shares;
}

int64_t total_size(const std::vector<Range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0}, [](int64_t sum, const Range& r) { return sum + r.size; });
}

}  // namespace shardproof
