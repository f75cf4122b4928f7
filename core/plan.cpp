#include "core/plan.hpp"

#include "core/error.hpp"

namespace shardproof {

std::string sharding_text(const Sharding& sharding) {
  const auto packed = [](const std::vector<int64_t>& blocks, std::string name) {
    return blocks.empty() ? name : fmt::format("packed_{}[{}]", name, fmt::join(blocks, ", "));
  };
  if (const auto* colwise = std::get_if<Colwise>(&sharding)) return packed(colwise->blocks, "colwise");
  if (const auto* rowwise = std::get_if<Rowwise>(&sharding))
    return packed(rowwise->blocks, rowwise->split_input ? "rowwise_split_input" : "rowwise");
  return "replicated";
}

bool glob_matches(const std::string& glob, const std::string& module) {
  const size_t star = glob.find('*');
  if (star == glob.npos) return glob == module;
  const std::string prefix = glob.substr(0, star), suffix = glob.substr(star + 1);
  if (module.size() <= prefix.size() + suffix.size() || !module.starts_with(prefix) || !module.ends_with(suffix)) return false;
  // The star is one component of a ModuleList: digits only, so that "blocks.*" cannot swallow a dot.
  return module.substr(star, module.size() - prefix.size() - suffix.size()).find_first_not_of("0123456789") == std::string::npos;
}

PlanEntry plan_entry(const Plan& plan, const std::string& module) {
  for (const auto& [glob, sharding] : plan.weights)
    if (glob_matches(glob, module)) return {glob, sharding};
  return {"", Replicated{}};
}

}  // namespace shardproof
