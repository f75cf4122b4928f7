#include "harness/meshes.hpp"

#include "core/error.hpp"
#include "strategies/registry.hpp"

#include <algorithm>
#include <tuple>

namespace shardproof {
namespace {

/// Splits at commas outside brackets.
std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) items.emplace_back();
    else items.back() += c;
  }
  return items;
}

std::vector<Axis> axes_of(const MeshShape& mesh) {
  std::vector<Axis> axes;
  for (const auto& [axis, degree] : mesh.degrees()) axes.push_back(axis);
  return axes;
}

void check_product(const std::string& text, const MeshShape& mesh, int ranks) {
  if (mesh.world_size() != ranks)
    fail_input("mesh", "{} has {} ranks, --ranks is {}; accepted: degrees whose product is {}", text, mesh.world_size(), ranks, ranks);
}

/// Every mesh of these axes with this product.
std::vector<MeshShape> factorisations(const std::vector<Axis>& axes, int ranks) {
  std::vector<std::vector<int>> degrees{{}};
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<std::vector<int>> longer;
    for (const auto& some : degrees) {
      int left = ranks;
      for (const int degree : some) left /= degree;
      for (int degree = 1; degree <= left; ++degree) {
        if (left % degree != 0 || (i + 1 == axes.size() && degree != left)) continue;
        longer.push_back(some);
        longer.back().push_back(degree);
      }
    }
    degrees = std::move(longer);
  }
  std::vector<MeshShape> meshes;
  for (const auto& some : degrees) {
    std::vector<std::pair<Axis, int>> named;
    for (size_t i = 0; i < axes.size(); ++i) named.emplace_back(axes[i], some[i]);
    meshes.emplace_back(named);
  }
  return meshes;
}

int largest_degree(const MeshShape& mesh) {
  int largest = 1;
  for (const auto& [axis, degree] : mesh.degrees()) largest = std::max(largest, degree);
  return largest;
}

/// The most square one; of two alike the one with more ulysses, which moves least.
MeshShape default_mesh(const Strategy& strategy, int ranks, const Legal& legal) {
  if (strategy.axes().empty()) return MeshShape();
  auto meshes = factorisations(strategy.axes(), ranks);
  const auto key = [&](const MeshShape& mesh) { return std::tuple(!legal(strategy, mesh), largest_degree(mesh), -mesh.degree(Axis::ulysses)); };
  return *std::min_element(meshes.begin(), meshes.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

Candidate parse_candidate(const std::string& item, int ranks, const std::optional<MeshShape>& mesh, const Legal& legal) {
  const size_t bracket = item.find('[');
  const Strategy& strategy = find_strategy(item.substr(0, bracket));
  if (bracket == item.npos) {
    if (mesh && axes_of(*mesh) == strategy.axes()) return {&strategy, *mesh};
    return {&strategy, default_mesh(strategy, ranks, legal)};
  }
  if (!item.ends_with(']')) fail_input("mesh", "\"{}\": the bracket is not closed; an example: ulysses[ulysses=4]", item);
  const MeshShape own = parse_mesh(std::string_view(item).substr(bracket + 1, item.size() - bracket - 2));
  if (axes_of(own) != strategy.axes()) fail_input("mesh", "\"{}\": {} does not have exactly these axes", item, strategy.name());
  check_product(item, own, ranks);
  return {&strategy, own};
}

}  // namespace

std::vector<Candidate> parse_candidates(const std::string& list, int ranks, const std::optional<std::string>& mesh, const Legal& legal) {
  if (ranks < 1 || ranks > 64) fail_input("mesh", "--ranks {} is out of range; accepted: 1 to 64", ranks);
  std::optional<MeshShape> given;
  if (mesh) {
    given = parse_mesh(*mesh);
    check_product(*mesh, *given, ranks);
  }
  std::vector<Candidate> result;
  for (const auto& item : split_list(list)) {
    if (item == "all")
      for (const Strategy* strategy : all_strategies()) result.push_back(parse_candidate(std::string(strategy->name()), ranks, given, legal));
    else
      result.push_back(parse_candidate(item, ranks, given, legal));
  }
  if (given && std::none_of(result.begin(), result.end(), [&](const Candidate& c) { return c.mesh == *given; }))
    fail_input("mesh", "--mesh {} fits none of the strategies {}", *mesh, list);
  return result;
}

}  // namespace shardproof
