#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardproof {

/// A run of features. Sharded: every rank holds its even share of it. `makers`: the Linears that gave it this layout.
struct Segment {
  int64_t size = 0;
  bool sharded = false;
  std::set<std::string> makers = {};
};

/// How the features of one activation lie over the tp ranks, without saying how many there are. The lattice: whole on every
/// rank; sharded, in an order of packed segments; a partial sum; or unknown, after a fault that has been reported.
struct FeatureLayout {
  std::vector<Segment> segments;  ///< in the whole tensor's order; neighbours that are whole are one
  bool partial = false;           ///< every rank holds a summand
  bool unknown = false;
  int64_t head_dim = 0;  ///< features of a head where the value is split into heads, else 0

  static FeatureLayout whole(int64_t width, std::set<std::string> makers = {});
  static FeatureLayout sharded(const std::vector<int64_t>& blocks, const std::string& maker);
  static FeatureLayout lost(int64_t width);

  int64_t width() const;
  bool is_whole() const;  ///< the same on every rank
  bool any_sharded() const;
  bool all_sharded() const;
  std::vector<int64_t> sizes() const;
  /// Linears behind its segments: of the sharded ones, or of the whole ones.
  std::set<std::string> makers(bool of_sharded) const;
  std::set<std::string> makers() const;
  /// "whole", "sharded", "sharded in blocks [3072, 12288]", "sharded in part ([3072] sharded, [12288] whole)".
  std::string text() const;
};

/// Whether ranks hold the same features of both, so that they may meet element by element.
bool same_layout(const FeatureLayout& a, const FeatureLayout& b);

/// The layout of both joined; `same_layout` must hold.
FeatureLayout merged(const FeatureLayout& a, const FeatureLayout& b);

FeatureLayout concatenated(const std::vector<FeatureLayout>& parts);

/// The parts of a split in these sizes, or nothing where a cut falls inside a sharded segment, or where a part is
/// sharded and another is not: the model cuts what a rank holds in the same proportions.
std::optional<std::vector<FeatureLayout>> split_layout(const FeatureLayout& x, const std::vector<int64_t>& sizes);

}  // namespace shardproof
