#pragma once

#include "harness/environment.hpp"
#include "harness/row.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace shardproof {

/// What all rows of one run have in common.
struct RunContext {
  std::string command, model, checkpoint_hash, comm, attention, mask;
  uint64_t seed = 0;
  Environment environment;
};

/// Text for an XML attribute.
std::string xml_escaped(const std::string& text);

/// One row as a record of schema "shardproof.record/2". Figures that are not finite are null.
Json to_record(const Row& row, const RunContext& context);

/// JSON lines, one record a row.
std::string to_json_lines(const std::vector<Row>& rows, const RunContext& context);

/// JUnit XML, one test case a row: `failed` rows are skipped cases with their reason, mismatches failures.
std::string to_junit(const std::vector<Row>& rows, const RunContext& context);

/// Input Error unless a file can be made there; makes nothing that stays.
void check_writable(const std::filesystem::path& file);

/// Writes to a temporary name in the same folder and renames; an interruption leaves the old file or none.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace shardproof
