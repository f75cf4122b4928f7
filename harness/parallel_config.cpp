#include "harness/parallel_config.hpp"

#include "core/error.hpp"
#include "strategies/registry.hpp"

#include <algorithm>

namespace shardproof {
namespace {

struct Config {
  int ring = 1, ulysses = 1, tp = 1;
  bool ulysses_anything = false, ring_anything = false, convert_to_fp32 = true;
};

const std::vector<std::string> context_fields{"ring_degree",   "ulysses_degree",   "convert_to_fp32", "rotate_method",
                                              "ulysses_anything", "ring_anything", "mesh"};
const std::vector<std::string> tensor_fields{"tp_degree", "mesh"};

void check_fields(const Json& json, const std::vector<std::string>& accepted, const std::string& source) {
  if (!json.is_object()) fail_input("parallel_config", "{}: a JSON object is needed; accepted fields: {}", source, fmt::join(accepted, ", "));
  for (const auto& [field, value] : json.items())
    if (std::find(accepted.begin(), accepted.end(), field) == accepted.end())
      fail_input("parallel_config", "{}: unknown field \"{}\"; accepted: {}", source, field, fmt::join(accepted, ", "));
}

/// The degree of an axis from its field, from the mesh, or both alike.
int degree_of(const JsonReader& reader, const Json& json, const std::string& field, const std::string& axis, const std::string& source) {
  const bool given = reader.has(field);
  int degree = static_cast<int>(reader.integer(field, 1, 1, 1 << 16));
  if (!reader.has("mesh")) return degree;
  const Json& mesh = json.at("mesh");
  if (!mesh.is_object()) fail_input("parallel_config", "{}: \"mesh\" is not understood; accepted: degrees by axis, e.g. {{\"ring\": 1, \"ulysses\": 4}}", source);
  for (const auto& [name, value] : mesh.items())
    if (name != "ring" && name != "ulysses" && name != "tp")
      fail_input("parallel_config", "{}: \"mesh\" has an axis \"{}\"; accepted: ring, ulysses, tp", source, name);
  const int meshed = static_cast<int>(JsonReader(mesh, source + ": mesh").integer(axis, 1, 1, 1 << 16));
  if (given && meshed != degree)
    fail_input("parallel_config", "{}: \"{}\" is {} and the mesh's {} is {}; accepted: one of them, or the same in both", source, field, degree, axis, meshed);
  return meshed;
}

void read_context(Config& config, const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  config.ring = degree_of(reader, json, "ring_degree", "ring", source);
  config.ulysses = degree_of(reader, json, "ulysses_degree", "ulysses", source);
  config.convert_to_fp32 = reader.boolean("convert_to_fp32", true);
  config.ulysses_anything = reader.boolean("ulysses_anything", false);
  config.ring_anything = reader.boolean("ring_anything", false);
  const auto rotate = reader.string("rotate_method", "allgather");
  if (rotate != "allgather")
    fail_input("parallel_config", "{}: \"rotate_method\" is \"{}\"; accepted: allgather (--strategies ring_p2p sends round the ring)", source, rotate);
  if (config.ulysses_anything && config.ulysses == 1)
    fail_input("parallel_config", "{}: \"ulysses_anything\" needs a ulysses_degree above 1", source);
  if (config.ring_anything && config.ring == 1) fail_input("parallel_config", "{}: \"ring_anything\" needs a ring_degree above 1", source);
  if (!config.convert_to_fp32 && (config.ulysses_anything || config.ring_anything || config.ring == 1))
    fail_input("parallel_config", "{}: \"convert_to_fp32\": false is accepted with a ring_degree above 1 and no \"anything\" flag", source);
}

Config read_config(const Json& json, const std::string& source) {
  Config config;
  const bool nested = json.is_object() && (json.contains("context_parallel_config") || json.contains("tensor_parallel_config"));
  if (nested) {
    check_fields(json, {"context_parallel_config", "tensor_parallel_config"}, source);
    const auto part = [&](const char* name, const std::vector<std::string>& fields) {
      const Json inner = json.contains(name) && !json.at(name).is_null() ? json.at(name) : Json::object();
      check_fields(inner, fields, fmt::format("{}: {}", source, name));
      return inner;
    };
    read_context(config, part("context_parallel_config", context_fields), source);
    const Json tensor = part("tensor_parallel_config", tensor_fields);
    config.tp = degree_of(JsonReader(tensor, source), tensor, "tp_degree", "tp", source);
    return config;
  }
  std::vector<std::string> all = context_fields;
  all.push_back("tp_degree");
  check_fields(json, all, source);
  read_context(config, json, source);
  config.tp = degree_of(JsonReader(json, source), json, "tp_degree", "tp", source);
  return config;
}

std::string context_strategy(const Config& config) {
  const bool anything = config.ulysses_anything || config.ring_anything;
  if (config.ring > 1 && config.ulysses > 1) {
    if (anything) return "unified_anything";
    return config.convert_to_fp32 ? "unified" : "ring_unconverted+ulysses";
  }
  if (config.ring > 1) return anything ? "ring_anything" : config.convert_to_fp32 ? "ring" : "ring_unconverted";
  return anything ? "ulysses_anything" : "ulysses";
}

}  // namespace

Candidate parse_parallel_config(const Json& json, const std::string& source, int ranks) {
  const Config config = read_config(json, source);
  const bool context = config.ring * config.ulysses > 1;
  if (!context && config.tp == 1)
    fail_input("parallel_config", "{}: every degree is 1; accepted: ring_degree, ulysses_degree or tp_degree above 1", source);
  if (config.ring * config.ulysses * config.tp != ranks)
    fail_input("parallel_config", "{}: ring {} × ulysses {} × tp {} is not --ranks {}; accepted: degrees whose product is the number of ranks", source,
               config.ring, config.ulysses, config.tp, ranks);
  std::string name = context ? context_strategy(config) : "";
  if (config.tp > 1) name = name.empty() ? "tp" : "tp+" + name;
  const Strategy& strategy = find_strategy(name);
  std::vector<std::pair<Axis, int>> degrees;
  for (const Axis axis : strategy.axes()) degrees.emplace_back(axis, axis == Axis::tp ? config.tp : axis == Axis::ring ? config.ring : config.ulysses);
  return {&strategy, MeshShape(degrees)};
}

}  // namespace shardproof
