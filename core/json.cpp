#include "core/json.hpp"

#include "core/error.hpp"

#include <fstream>
#include <set>
#include <sstream>

namespace shardproof {

Json parse_json(std::string_view text, std::string_view source) {
  // The parser takes a zero byte for the end of the text and would not see what follows it.
  if (text.find('\0') != text.npos) fail_input("json", "{}: not valid JSON: it holds a zero byte", source);
  std::vector<std::set<std::string>> keys;
  const auto no_repeats = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      fail_input("json", "{}: key \"{}\" appears twice", source, value.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text, no_repeats);
  } catch (const Json::exception& error) {
    fail_input("json", "{}: not valid JSON: {}", source, error.what());
  }
}

Json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_input("json", "{}: cannot be read", file.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_json(text.str(), file.string());
}

JsonReader::JsonReader(const Json& object, std::string source) : object_(object), source_(std::move(source)) {
  if (!object.is_object()) fail_input("json", "{}: a JSON object is expected, found {}", source_, object.type_name());
}

bool JsonReader::has(const std::string& key) const { return find(key, false) != nullptr; }

const Json* JsonReader::find(const std::string& key, bool required) const {
  const auto found = object_.find(key);
  if (found != object_.end() && !found->is_null()) return &*found;
  if (required) fail_input("json", "{}: \"{}\" is missing", source_, key);
  return nullptr;
}

void JsonReader::refuse(const std::string& key, const std::string& accepted) const {
  fail_input("json", "{}: \"{}\" is {}; accepted: {}", source_, key, object_.at(key).dump(), accepted);
}

int64_t JsonReader::integer(const std::string& key, std::optional<int64_t> fallback, int64_t minimum, int64_t maximum) const {
  const Json* value = find(key, !fallback);
  if (!value) return *fallback;
  const auto accepted = fmt::format("a whole number from {} to {}", minimum, maximum);
  if (!value->is_number_integer()) refuse(key, accepted);
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) refuse(key, accepted);
  const auto number = value->get<int64_t>();
  if (number < minimum || number > maximum) refuse(key, accepted);
  return number;
}

double JsonReader::number(const std::string& key, std::optional<double> fallback) const {
  const Json* value = find(key, !fallback);
  if (!value) return *fallback;
  if (!value->is_number()) refuse(key, "a number");
  return value->get<double>();
}

bool JsonReader::boolean(const std::string& key, std::optional<bool> fallback) const {
  const Json* value = find(key, !fallback);
  if (!value) return *fallback;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string JsonReader::string(const std::string& key, std::optional<std::string> fallback) const {
  const Json* value = find(key, !fallback);
  if (!value) return *fallback;
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::vector<int64_t> JsonReader::integers(const std::string& key, std::optional<std::vector<int64_t>> fallback) const {
  const Json* value = find(key, !fallback);
  if (!value) return *fallback;
  if (!value->is_array()) refuse(key, "a list of whole numbers");
  for (const Json& item : *value)
    if (!item.is_number_integer()) refuse(key, "a list of whole numbers");
  return value->get<std::vector<int64_t>>();
}

}  // namespace shardproof
