#include "core/plan_json.hpp"

#include "core/error.hpp"
#include "core/plan_match.hpp"

#include <numeric>

namespace shardproof {
namespace {

constexpr const char* accepted_styles =
    "\"colwise\", \"rowwise\", \"rowwise_split_input\", \"replicated\", or {\"style\": \"packed_colwise\" or \"packed_rowwise\", "
    "\"blocks\": "
    "[1, 3] or \"stored\"}";

[[noreturn]] void refuse(const std::string& source, const std::string& key, const std::string& found,
                         const std::string& accepted) {
  fail_input("plan", "{}: \"{}\": {}; accepted: {}", source, key, found, accepted);
}

Sharding plain_style(const std::string& style, const std::string& source, const std::string& key) {
  if (style == "colwise") return Colwise{};
  if (style == "rowwise") return Rowwise{};
  if (style == "rowwise_split_input") return Rowwise{{}, true};
  if (style == "replicated") return Replicated{};
  if (style == "packed_colwise" || style == "packed_rowwise")
    refuse(source, key, fmt::format("style {} needs blocks", style),
           fmt::format("{{\"style\": \"{}\", \"blocks\": [1, 3] or \"stored\"}}", style));
  refuse(source, key, fmt::format("unknown style \"{}\"", style), accepted_styles);
}

std::vector<int64_t> read_blocks(const Json& blocks, const std::string& source, const std::string& key) {
  const auto wrong = [&] {
    refuse(source, key, fmt::format("blocks are {}", blocks.dump()), "a list of whole numbers from 1, or \"stored\"");
  };
  if (!blocks.is_array() || blocks.empty()) wrong();
  for (const Json& block : blocks)
    if (!block.is_number_integer() || block < 1 || block > (int64_t{1} << 32)) wrong();
  return blocks.get<std::vector<int64_t>>();
}

PlannedStyle packed_style(const Json& value, const std::string& source, const std::string& key) {
  for (const auto& [name, ignored] : value.items())
    if (name != "style" && name != "blocks") refuse(source, key, fmt::format("unknown field \"{}\"", name), "style, blocks");
  if (!value.contains("style") || !value["style"].is_string())
    refuse(source, key, "\"style\" is missing or no string", accepted_styles);
  const auto style = value["style"].get<std::string>();
  const bool colwise = style == "packed_colwise";
  if (!colwise && style != "packed_rowwise") {
    const Sharding plain = plain_style(style, source, key);
    if (value.contains("blocks"))
      refuse(source, key, fmt::format("style {} takes no blocks", style), fmt::format("\"packed_{}\"", style));
    return {plain};
  }
  PlannedStyle result{colwise ? Sharding(Colwise{}) : Sharding(Rowwise{})};
  result.stored_blocks = !value.contains("blocks") || value["blocks"] == "stored";
  if (result.stored_blocks) return result;
  const auto blocks = read_blocks(value["blocks"], source, key);
  result.sharding = colwise ? Sharding(Colwise{blocks}) : Sharding(Rowwise{blocks, false});
  return result;
}

/// What the model stores with the Linear of this name.
std::vector<int64_t> stored_with(const Dataflow& dataflow, const std::string& module, bool colwise) {
  for (const Region& region : dataflow.regions)
    for (int64_t i = 0; i < region.count; ++i)
      for (const flow::Op& op : region.ops)
        if (const auto* linear = std::get_if<flow::Linear>(&op.kind); linear && module_name(region, linear->module, i) == module)
          return colwise ? linear->stored_rows : linear->stored_columns;
  return {};
}

}  // namespace

PlanFile parse_plan(const Json& json, const std::string& source) {
  if (!json.is_object()) fail_input("plan", "{}: a plan is an object of module → style, found {}", source, json.type_name());
  PlanFile plan;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string())
      plan[key] = {plain_style(value.get<std::string>(), source, key)};
    else if (value.is_object())
      plan[key] = packed_style(value, source, key);
    else
      refuse(source, key, fmt::format("style is {}", value.dump()), accepted_styles);
  }
  return plan;
}

std::map<std::string, Sharding> with_stored_blocks(const PlanFile& plan, const Dataflow& dataflow) {
  std::map<std::string, Sharding> result;
  const ModuleTree tree = module_tree(dataflow);
  for (const auto& [key, style] : plan) {
    Sharding& sharding = result[key] = style.sharding;
    const auto modules = match_key(key, tree).modules;
    if (!style.stored_blocks || modules.empty()) continue;
    const bool colwise = std::holds_alternative<Colwise>(sharding);
    const auto blocks = stored_with(dataflow, modules.front(), colwise);
    if (blocks.empty())
      fail_input(
          "plan",
          "\"{}\": no blocks of {} are stored with {}; accepted: a list, e.g. \"blocks\": [1, 3], or the plain style \"{}\"", key,
          colwise ? "rows" : "columns", modules.front(), colwise ? "colwise" : "rowwise");
    sharding = colwise ? Sharding(Colwise{blocks}) : Sharding(Rowwise{blocks, false});
  }
  return result;
}

Json style_json(const Sharding& sharding) {
  const auto packed = [](const char* style, const std::vector<int64_t>& blocks) {
    return Json{{"style", style}, {"blocks", lowest_terms(blocks)}};
  };
  if (const auto* colwise = std::get_if<Colwise>(&sharding); colwise && !colwise->blocks.empty())
    return packed("packed_colwise", colwise->blocks);
  if (const auto* rowwise = std::get_if<Rowwise>(&sharding); rowwise && !rowwise->blocks.empty())
    return packed("packed_rowwise", rowwise->blocks);
  return sharding_text(sharding);
}

Json plan_json(const std::map<std::string, Sharding>& plan) {
  Json json = Json::object();
  for (const auto& [key, sharding] : plan) json[key] = style_json(sharding);
  return json;
}

std::string plan_text(const std::map<std::string, Sharding>& plan) {
  std::vector<std::string> lines;
  for (const auto& [key, sharding] : plan)
    lines.push_back(fmt::format("  {}: {}", Json(key).dump(), style_json(sharding).dump()));
  return fmt::format("{{\n{}\n}}\n", fmt::join(lines, ",\n"));
}

std::vector<int64_t> lowest_terms(const std::vector<int64_t>& blocks) {
  int64_t divisor = 0;
  for (const int64_t block : blocks) divisor = std::gcd(divisor, block);
  std::vector<int64_t> terms;
  for (const int64_t block : blocks) terms.push_back(divisor > 0 ? block / divisor : block);
  return terms;
}

}  // namespace shardproof
