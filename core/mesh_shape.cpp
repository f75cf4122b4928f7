#include "core/mesh_shape.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 6> names{"dp", "cfg", "stage", "tp", "ring", "ulysses"};

}  // namespace

std::string_view axis_name(Axis axis) { return names.at(static_cast<size_t>(axis)); }

Axis parse_axis(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail_input("mesh", "unknown axis \"{}\"; accepted: {}", name, fmt::join(names, ", "));
  return static_cast<Axis>(found - names.begin());
}

MeshShape::MeshShape(std::vector<std::pair<Axis, int>> degrees) : degrees_(std::move(degrees)) {
  std::sort(degrees_.begin(), degrees_.end());
  for (size_t i = 0; i < degrees_.size(); ++i) {
    if (i > 0 && degrees_[i].first == degrees_[i - 1].first)
      fail_input("mesh", "axis {} is given twice", axis_name(degrees_[i].first));
    if (degrees_[i].second < 1)
      fail_input("mesh", "degree {} of axis {} is below 1", degrees_[i].second, axis_name(degrees_[i].first));
  }
}

int MeshShape::degree(Axis axis) const {
  for (const auto& [name, degree] : degrees_)
    if (name == axis) return degree;
  return 1;
}

int MeshShape::world_size() const {
  int size = 1;
  for (const auto& [name, degree] : degrees_) size *= degree;
  return size;
}

int MeshShape::stride(Axis axis) const {
  int stride = 1;
  for (const auto& [name, degree] : degrees_)
    if (name > axis) stride *= degree;
  return stride;
}

int MeshShape::coordinate(int rank, Axis axis) const { return rank / stride(axis) % degree(axis); }

std::vector<int> MeshShape::group(int rank, Axis axis) const {
  std::vector<int> ranks;
  const int first = rank - coordinate(rank, axis) * stride(axis);
  for (int i = 0; i < degree(axis); ++i) ranks.push_back(first + i * stride(axis));
  return ranks;
}

std::string MeshShape::text() const {
  std::vector<std::string> parts;
  for (const auto& [axis, degree] : degrees_) parts.push_back(fmt::format("{}={}", axis_name(axis), degree));
  return parts.empty() ? "single" : fmt::format("{}", fmt::join(parts, ","));
}

MeshShape parse_mesh(std::string_view text) {
  std::vector<std::pair<Axis, int>> degrees;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const size_t equals = item.find('=');
    int degree = 0;
    const char* last = item.data() + item.size();
    const auto number = equals == item.npos ? std::from_chars_result{last, std::errc::invalid_argument}
                                            : std::from_chars(item.data() + equals + 1, last, degree);
    if (number.ec != std::errc{} || number.ptr != last)
      fail_input("mesh", "\"{}\" is not AXIS=DEGREE; an example: tp=2,ulysses=4", item);
    degrees.emplace_back(parse_axis(item.substr(0, equals)), degree);
    begin = end + 1;
  }
  return MeshShape(std::move(degrees));
}

}  // namespace shardproof
