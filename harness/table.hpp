#pragma once

#include "harness/row.hpp"

#include <string>
#include <vector>

namespace shardproof {

/// Rows as a table for people: worst figures against their gates, traffic, memory, time, status.
std::string table_text(const std::vector<Row>& rows);

/// Comparisons with what diffusers computed, one line each; empty where the checkpoint has none.
std::string diffusers_text(const std::vector<Row>& rows);

/// Counts by status, and for every mismatch, failure or error where and why.
std::string summary_text(const std::vector<Row>& rows);

}  // namespace shardproof
