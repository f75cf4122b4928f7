#pragma once

#include "core/json.hpp"
#include "strategies/plan_check.hpp"

#include <string>

namespace shardproof {

/// A report for people: entries with shapes, bytes and verdicts, totals per degree, then every fault, one a line.
std::string plan_report_text(const PlanReport& report);

/// The same as one object of schema "shardproof.plan_check/1".
Json plan_report_json(const PlanReport& report, const std::string& model, const std::string& plan_source);

/// JUnit XML: a test case for each entry, each entry that is missing, and each degree.
std::string plan_report_junit(const PlanReport& report, const std::string& model);

}  // namespace shardproof
