#pragma once

#include "core/error.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>

namespace shardproof {

/// What reading the diffusers config.json of any model family has in common. Errors name the source and the field.

/// Above any real width, far below overflow of products.
inline constexpr int64_t largest_width = int64_t{1} << 20;

/// Input Error unless "_class_name" is `accepted` or absent, and the weights are not quantised.
void check_class(const JsonReader& reader, const std::string& source, const std::string& accepted);

/// A number above 0 and at most `maximum`.
double positive_number(const JsonReader& reader, const std::string& source, const std::string& key, double fallback,
                       double maximum);

/// "axes_dims_rope": N even numbers whose sum is the head dim.
template <size_t N>
std::array<int64_t, N> read_axes(const JsonReader& reader, const std::string& source, const std::array<int64_t, N>& fallback,
                                 int64_t head_dim) {
  const auto given = reader.integers("axes_dims_rope", std::vector<int64_t>(fallback.begin(), fallback.end()));
  if (given.size() != N) fail_input("config", "{}: \"axes_dims_rope\" has {} entries; accepted: {}", source, given.size(), N);
  const auto wrong = [](int64_t size) { return size < 2 || size % 2 != 0 || size > largest_width; };
  if (std::any_of(given.begin(), given.end(), wrong) || std::accumulate(given.begin(), given.end(), int64_t{0}) != head_dim)
    fail_input("config", "{}: \"axes_dims_rope\" is [{}]; accepted: {} even numbers whose sum is attention_head_dim {}", source,
               fmt::join(given, ", "), N, head_dim);
  std::array<int64_t, N> axes{};
  std::copy(given.begin(), given.end(), axes.begin());
  return axes;
}

}  // namespace shardproof
