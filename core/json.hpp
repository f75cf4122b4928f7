#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

using Json = nlohmann::ordered_json;

/// Parses text; a syntax error or a repeated key becomes an input Error that names `source`.
Json parse_json(std::string_view text, std::string_view source);
Json read_json(const std::filesystem::path& file);

/// Typed access with errors that name the source, the key, what was found and what is accepted.
class JsonReader {
 public:
  /// `object` must outlive the reader.
  JsonReader(const Json& object, std::string source);

  bool has(const std::string& key) const;  ///< present and not null
  int64_t integer(const std::string& key, std::optional<int64_t> fallback, int64_t minimum, int64_t maximum) const;
  double number(const std::string& key, std::optional<double> fallback) const;
  bool boolean(const std::string& key, std::optional<bool> fallback) const;
  std::string string(const std::string& key, std::optional<std::string> fallback) const;
  std::vector<int64_t> integers(const std::string& key, std::optional<std::vector<int64_t>> fallback) const;

 private:
  const Json* find(const std::string& key, bool required) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& accepted) const;
  const Json& object_;
  std::string source_;
};

}  // namespace shardproof
