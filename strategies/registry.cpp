#include "strategies/registry.hpp"

#include "core/error.hpp"
#include "strategies/data_parallel.hpp"
#include "strategies/product.hpp"
#include "strategies/ring.hpp"
#include "strategies/ring_anything.hpp"
#include "strategies/ring_p2p.hpp"
#include "strategies/single.hpp"
#include "strategies/tp.hpp"
#include "strategies/ulysses.hpp"
#include "strategies/ulysses_anything.hpp"
#include "strategies/unified.hpp"

#include <algorithm>
#include <map>

namespace shardproof {

const std::vector<const Strategy*>& all_strategies() {
  static const std::vector<const Strategy*> list{&single(),           &data_parallel(), &ulysses(),          &ring(), &ring_p2p(), &unified(),
                                                  &ulysses_anything(), &ring_anything(), &unified_anything(), &tp()};
  return list;
}

namespace {

/// By other names, or too special for "all".
const Strategy* by_alias(std::string_view name) {
  if (name == "unified_balanced") return &unified();  // the guide's name of its most square mesh, which is our default
  if (name == "ring_unconverted") return &ring_unconverted();
  return nullptr;
}

/// "tp+ulysses": made when first named.
const Strategy& product(std::string_view name) {
  static std::map<std::string, Product, std::less<>> made;
  if (const auto found = made.find(name); found != made.end()) return found->second;
  std::vector<const Strategy*> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('+', begin), name.size());
    parts.push_back(&find_strategy(name.substr(begin, end - begin)));
    begin = end + 1;
  }
  return made.try_emplace(std::string(name), std::string(name), parts).first->second;
}

}  // namespace

const Strategy& find_strategy(std::string_view name) {
  if (const Strategy* strategy = by_alias(name)) return *strategy;
  if (name.find('+') != name.npos) return product(name);
  std::vector<std::string_view> names;
  for (const Strategy* strategy : all_strategies()) {
    if (strategy->name() == name) return *strategy;
    names.push_back(strategy->name());
  }
  fail_input("strategies", "unknown strategy \"{}\"; accepted: all, {}, and products such as tp+ulysses", name, fmt::join(names, ", "));
}

std::vector<const Strategy*> parse_strategies(std::string_view list) {
  if (list == "all") return all_strategies();
  std::vector<const Strategy*> result;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const Strategy& strategy = find_strategy(list.substr(begin, end - begin));
    if (std::find(result.begin(), result.end(), &strategy) == result.end()) result.push_back(&strategy);
    begin = end + 1;
  }
  return result;
}

}  // namespace shardproof
