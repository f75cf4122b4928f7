#include "core/json.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(Json, RefusesMalformedTextNamingTheSource) {
  test::expect_error(Fault::input, {"x.json", "not valid JSON"}, [] { parse_json("{\"a\": }", "x.json"); });
  test::expect_error(Fault::input, {"x.json", "\"a\" appears twice"}, [] { parse_json(R"({"a": 1, "a": 2})", "x.json"); });
  test::expect_error(Fault::input, {"x.json", "\"b\" appears twice"}, [] { parse_json(R"({"a": {"b": 1, "b": 2}})", "x.json"); });
  test::expect_error(Fault::input, {"zero byte"}, [] { parse_json(std::string_view("{}\0garbage", 10), "x.json"); });
  EXPECT_NO_THROW(parse_json(R"({"a": {"b": 1}, "c": {"b": 1}})", "x.json"));
  test::expect_error(Fault::input, {"no/such.json", "cannot be read"}, [] { read_json("no/such.json"); });
}

TEST(JsonReader, TypesAndRanges) {
  const Json json = parse_json(R"({"n": 3, "x": 1.5, "t": true, "s": "word", "l": [1, 2], "null": null, "big": 18446744073709551615})", "c");
  const JsonReader reader(json, "c");
  EXPECT_EQ(reader.integer("n", {}, 0, 10), 3);
  EXPECT_EQ(reader.integer("absent", 7, 0, 10), 7);
  EXPECT_EQ(reader.integer("null", 7, 0, 10), 7);
  EXPECT_EQ(reader.number("x", {}), 1.5);
  EXPECT_EQ(reader.boolean("t", {}), true);
  EXPECT_EQ(reader.string("s", {}), "word");
  EXPECT_EQ(reader.integers("l", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(reader.has("null"));
  test::expect_error(Fault::input, {"\"absent\" is missing"}, [&] { reader.integer("absent", {}, 0, 1); });
  test::expect_error(Fault::input, {"\"n\" is 3", "4 to 10"}, [&] { reader.integer("n", {}, 4, 10); });
  test::expect_error(Fault::input, {"\"x\" is 1.5", "whole number"}, [&] { reader.integer("x", {}, 0, 10); });
  test::expect_error(Fault::input, {"\"big\""}, [&] { reader.integer("big", {}, 0, 10); });
  test::expect_error(Fault::input, {"\"s\"", "true or false"}, [&] { reader.boolean("s", {}); });
  test::expect_error(Fault::input, {"\"x\"", "list"}, [&] { reader.integers("x", {}); });
  const Json list = parse_json("[1]", "c");
  test::expect_error(Fault::input, {"object"}, [&] { JsonReader(list, "c"); });
}

}  // namespace
}  // namespace shardproof
