#include "strategies/feature_layout.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

/// Adds a segment; whole neighbours become one.
void append(FeatureLayout& layout, const Segment& segment) {
  auto& segments = layout.segments;
  if (segments.empty() || segments.back().sharded || segment.sharded) {
    segments.push_back(segment);
    return;
  }
  segments.back().size += segment.size;
  segments.back().makers.insert(segment.makers.begin(), segment.makers.end());
}

}  // namespace

FeatureLayout FeatureLayout::whole(int64_t width, std::set<std::string> makers) {
  FeatureLayout layout;
  layout.segments = {{width, false, std::move(makers)}};
  return layout;
}

FeatureLayout FeatureLayout::sharded(const std::vector<int64_t>& blocks, const std::string& maker) {
  FeatureLayout layout;
  for (const int64_t block : blocks) layout.segments.push_back({block, true, {maker}});
  return layout;
}

FeatureLayout FeatureLayout::lost(int64_t width) {
  FeatureLayout layout = whole(width);
  layout.unknown = true;
  return layout;
}

int64_t FeatureLayout::width() const {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0},
                         [](int64_t sum, const Segment& s) { return sum + s.size; });
}

bool FeatureLayout::is_whole() const { return !unknown && !partial && !any_sharded(); }
bool FeatureLayout::any_sharded() const {
  return std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return s.sharded; });
}
bool FeatureLayout::all_sharded() const {
  return std::all_of(segments.begin(), segments.end(), [](const Segment& s) { return s.sharded; });
}

std::vector<int64_t> FeatureLayout::sizes() const {
  std::vector<int64_t> sizes;
  for (const Segment& segment : segments) sizes.push_back(segment.size);
  return sizes;
}

std::set<std::string> FeatureLayout::makers(bool of_sharded) const {
  std::set<std::string> all;
  for (const Segment& segment : segments)
    if (segment.sharded == of_sharded) all.insert(segment.makers.begin(), segment.makers.end());
  return all;
}

std::set<std::string> FeatureLayout::makers() const {
  std::set<std::string> all = makers(true);
  all.merge(makers(false));
  return all;
}

std::string FeatureLayout::text() const {
  if (unknown) return "unknown";
  if (partial) return "a partial sum";
  if (!any_sharded()) return "whole";
  if (all_sharded()) return segments.size() == 1 ? "sharded" : fmt::format("sharded in blocks [{}]", fmt::join(sizes(), ", "));
  std::vector<std::string> parts;
  for (const Segment& segment : segments)
    parts.push_back(fmt::format("[{}] {}", segment.size, segment.sharded ? "sharded" : "whole"));
  return fmt::format("sharded in part ({})", fmt::join(parts, ", "));
}

bool same_layout(const FeatureLayout& a, const FeatureLayout& b) {
  return a.partial == b.partial &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [](const Segment& x, const Segment& y) { return x.size == y.size && x.sharded == y.sharded; });
}

FeatureLayout merged(const FeatureLayout& a, const FeatureLayout& b) {
  FeatureLayout result = a;
  for (size_t i = 0; i < result.segments.size(); ++i)
    result.segments[i].makers.insert(b.segments[i].makers.begin(), b.segments[i].makers.end());
  return result;
}

FeatureLayout concatenated(const std::vector<FeatureLayout>& parts) {
  FeatureLayout result;
  for (const FeatureLayout& part : parts) {
    result.unknown |= part.unknown;
    result.partial |= part.partial;
    for (const Segment& segment : part.segments) append(result, segment);
  }
  return result;
}

std::optional<std::vector<FeatureLayout>> split_layout(const FeatureLayout& x, const std::vector<int64_t>& sizes) {
  std::vector<FeatureLayout> parts;
  size_t index = 0;
  int64_t left = x.segments.empty() ? 0 : x.segments[0].size;  // of the segment at hand
  for (const int64_t size : sizes) {
    FeatureLayout part = x;
    part.segments.clear();
    for (int64_t missing = size; missing > 0;) {
      while (left == 0) left = x.segments[++index].size;
      const Segment& segment = x.segments[index];
      const int64_t taken = std::min(missing, left);
      if (segment.sharded && taken != segment.size) return std::nullopt;
      append(part, {taken, segment.sharded, segment.makers});
      missing -= taken;
      left -= taken;
    }
    parts.push_back(std::move(part));
  }
  const bool all = std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.all_sharded(); });
  const bool none = std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part.any_sharded(); });
  return all || none ? std::optional(parts) : std::nullopt;
}

}  // namespace shardproof
