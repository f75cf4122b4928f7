#include "core/config_reading.hpp"

namespace shardproof {

void check_class(const JsonReader& reader, const std::string& source, const std::string& accepted) {
  const auto found = reader.string("_class_name", accepted);
  if (found != accepted) fail_input("config", "{}: \"_class_name\" is \"{}\"; accepted: {}", source, found, accepted);
  if (reader.has("quantization_config"))
    fail_input("config", "{}: \"quantization_config\" is set; accepted: unquantised float weights", source);
}

double positive_number(const JsonReader& reader, const std::string& source, const std::string& key, double fallback,
                       double maximum) {
  const double value = reader.number(key, fallback);
  if (!(value > 0 && value <= maximum))
    fail_input("config", "{}: \"{}\" is {}; accepted: a number above 0, at most {}", source, key, value, maximum);
  return value;
}

}  // namespace shardproof
