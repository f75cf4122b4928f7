#include "harness/records.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/temp_dir.hpp"

#include <fstream>
#include <sstream>

namespace shardproof {
namespace {

Row row(Status status) {
  Row row;
  row.strategy = "tp";
  row.mesh = MeshShape({{Axis::tp, 2}});
  row.ranks = 2;
  row.family = "randn";
  row.status = status;
  if (status != Status::pass) row.reason = "why <&\"> not";
  Comparison c{true, Level::module, "fc", "out", {}, {}, {}, 1e-12, status == Status::pass, {}};
  c.stats.relative_l2 = std::numeric_limits<double>::infinity();
  row.comparisons = {c};
  row.counters = {{10, 1, 20, 5}, {11, 1, 20, 5}};
  row.step_s = {3, 1, 2};
  return row;
}

RunContext context() { return {"verify", "model", "0123456789abcdef", "local", "kokkos_flash", "none", 0, {Json::object(), Json::object(), "abc", 1, "now", "shardproof"}}; }

TEST(Records, HoldTheRowAndNullWhereAFigureIsNotFinite) {
  const Json record = to_record(row(Status::mismatch), context());
  EXPECT_EQ(record["schema"], "shardproof.record/2");
  EXPECT_EQ(record["mesh"], (Json{{"tp", 2}}));
  EXPECT_EQ(record["status"], "mismatch");
  EXPECT_TRUE(record["logic"]["worst"].is_null());
  EXPECT_TRUE(record["precision"].is_null());
  EXPECT_EQ(record["counters"]["per_rank"][1]["bytes_sent"], 11);
  EXPECT_EQ(record["times"]["step_s"]["median"], 2);
  EXPECT_EQ(record["times"]["step_s"]["n"], 3);
}

TEST(Records, JUnitCountsAndEscapes) {
  const std::string xml = to_junit({row(Status::pass), row(Status::failed), row(Status::mismatch), row(Status::error)}, context());
  EXPECT_NE(xml.find("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("why &lt;&amp;&quot;&gt; not"), std::string::npos);
  EXPECT_EQ(xml.find("<&"), std::string::npos);
}

TEST(Records, AreWrittenWholeOrNotAtAll) {
  const test::TempDir folder;
  const auto file = folder.path() / "rows.jsonl";
  write_file(file, "one\n");
  write_file(file, "two\n");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), "two\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // no temporary file stays
  test::expect_error(Fault::input, {"no-such", "does not exist"}, [&] { check_writable(folder.path() / "no-such" / "rows.jsonl"); });
  test::expect_error(Fault::input, {"is a folder"}, [&] { check_writable(folder.path()); });
  EXPECT_NO_THROW(check_writable("rows.jsonl"));
}

}  // namespace
}  // namespace shardproof
