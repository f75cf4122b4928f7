#include "core/plan_match.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

/// "a.b.c" → {"a.b", "c"}; {"", "a"} at the top.
std::pair<std::string, std::string> parent_of(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == module.npos ? std::pair{std::string(), module} : std::pair{module.substr(0, dot), module.substr(dot + 1)};
}

/// Levenshtein's distance.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

std::optional<std::string> nearest_key(const std::string& key, const ModuleTree& tree) {
  std::optional<std::string> nearest;
  size_t best = key.size() / 4 + 2;  // from there on it is another module, not a slip
  std::set<std::string> keys;
  for (const auto& linear : tree.linears) keys.insert(key_of(linear, tree));
  for (const auto& candidate : keys)
    if (const size_t d = distance(key, candidate); d > 0 && d < best) {
      best = d;
      nearest = candidate;
    }
  return nearest;
}

KeyMatch wrong(const std::string& fault, const std::string& key, const ModuleTree& tree) {
  return {{}, fault, nearest_key(key, tree)};
}

/// Why a module cannot be sharded, or nothing when it is a Linear.
std::optional<std::string> no_linear(const std::string& module, const ModuleTree& tree) {
  if (tree.linears.count(module)) return std::nullopt;
  if (!tree.modules.count(module)) return fmt::format("matches nothing: the model has no module {}", module);
  if (tree.weighted.count(module))
    return fmt::format("matches {}, whose weight is a vector: a norm, not a Linear; it stays replicated", module);
  return fmt::format("matches {}, a module without a weight of its own", module);
}

KeyMatch match_name(const std::string& key, const ModuleTree& tree) {
  if (const auto fault = no_linear(key, tree))
    return {{}, fault, tree.weighted.count(key) ? std::nullopt : nearest_key(key, tree)};
  return {{key}, {}, {}};
}

KeyMatch match_list(const std::string& key, size_t star, const ModuleTree& tree) {
  if (star < 2 || key[star - 1] != '.' || (star + 1 < key.size() && key[star + 1] != '.'))
    return wrong("has a * that is not a whole component of the name: accepted is LIST.*.MODULE", key, tree);
  const std::string list = key.substr(0, star - 1), rest = star + 2 <= key.size() ? key.substr(star + 2) : "";
  const auto elements = tree.lists.find(list);
  if (elements == tree.lists.end())
    return wrong(tree.modules.count(list) ? fmt::format("has a * over {}, which is not a ModuleList", list)
                                          : fmt::format("matches nothing: the model has no module {}", list),
                 key, tree);
  KeyMatch match;
  for (const auto& element : elements->second) {
    const std::string module = list + "." + element + (rest.empty() ? "" : "." + rest);
    if (const auto fault = no_linear(module, tree))
      return {{}, fault, tree.weighted.count(module) ? std::nullopt : nearest_key(key, tree)};
    match.modules.push_back(module);
  }
  return match;
}

}  // namespace

ModuleTree module_tree(const std::map<std::string, std::vector<int64_t>>& parameters, const std::set<std::string>& sequentials) {
  ModuleTree tree;
  std::map<std::string, std::set<std::string>> children;
  for (const auto& [name, shape] : parameters) {
    std::string module = parent_of(name).first;
    if (name.ends_with(".weight")) (shape.size() == 2 ? tree.linears : tree.weighted).insert(module);
    for (; !module.empty() && tree.modules.insert(module).second; module = parent_of(module).first)
      children[parent_of(module).first].insert(parent_of(module).second);
  }
  tree.weighted.insert(tree.linears.begin(), tree.linears.end());
  for (const auto& [module, names] : children) {
    if (sequentials.count(module) || !std::all_of(names.begin(), names.end(), is_number)) continue;
    auto& elements = tree.lists[module] = {names.begin(), names.end()};
    std::sort(elements.begin(), elements.end(), [](const auto& a, const auto& b) { return std::stoll(a) < std::stoll(b); });
  }
  return tree;
}

ModuleTree module_tree(const Dataflow& dataflow) {
  std::set<std::string> sequentials;
  for (const Region& region : dataflow.regions)
    for (int64_t i = 0; i < region.count; ++i)
      for (const auto& name : dataflow.sequentials) sequentials.insert(module_name({name, 1, {}}, "", i));
  return module_tree(parameters(dataflow), sequentials);
}

KeyMatch match_key(const std::string& key, const ModuleTree& tree) {
  const auto stars = std::count(key.begin(), key.end(), '*');
  if (stars > 1) return wrong(fmt::format("has {} * in it; at most one is accepted", stars), key, tree);
  return stars == 0 ? match_name(key, tree) : match_list(key, key.find('*'), tree);
}

std::string key_of(const std::string& module, const ModuleTree& tree) {
  for (size_t dot = module.find('.'); dot != module.npos; dot = module.find('.', dot + 1)) {
    if (!tree.lists.count(module.substr(0, dot))) continue;
    const size_t end = module.find('.', dot + 1);
    return module.substr(0, dot) + ".*" + (end == module.npos ? "" : module.substr(end));
  }
  return module;
}

}  // namespace shardproof
