#include "strategies/registry.hpp"

#include "core/error.hpp"
#include "strategies/data_parallel.hpp"
#include "strategies/ring.hpp"
#include "strategies/single.hpp"
#include "strategies/tp.hpp"
#include "strategies/ulysses.hpp"

#include <algorithm>

namespace shardproof {

const std::vector<const Strategy*>& all_strategies() {
  static const std::vector<const Strategy*> list{&single(), &data_parallel(), &ulysses(), &ring(), &tp()};
  return list;
}

const Strategy& find_strategy(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Strategy* strategy : all_strategies()) {
    if (strategy->name() == name) return *strategy;
    names.push_back(strategy->name());
  }
  fail_input("strategies", "unknown strategy \"{}\"; accepted: all, {}", name, fmt::join(names, ", "));
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
