#include "harness/table.hpp"

#include "core/dtype.hpp"

#include <algorithm>
#include <set>

namespace shardproof {
namespace {

std::string bytes_text(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string logic_text(const Row& row) {
  const Comparison* c = worst(row, true);
  return c ? fmt::format("{:.1e} / {:.0e}", c->stats.relative_l2, c->limit) : "-";
}

std::string precision_text(const Row& row) {
  const Comparison* c = worst(row, false);
  return c ? fmt::format("{:.3f} / {:.2f}", c->ratio.value_or(0), c->limit) : "-";
}

int64_t largest(const Row& row, int64_t RankCounters::*field) {
  int64_t result = 0;
  for (const RankCounters& c : row.counters) result = std::max(result, c.*field);
  return result;
}

std::vector<std::string> cells(const Row& row) {
  const bool ran = !row.counters.empty();
  double step = 0;
  for (const double s : row.step_s) step = std::max(step, s);
  return {row.strategy,
          row.mesh.text(),
          dtype_name(row.dtype),
          row.family,
          std::to_string(row.steps),
          logic_text(row),
          precision_text(row),
          ran ? bytes_text(largest(row, &RankCounters::bytes_sent)) : "-",
          ran ? bytes_text(largest(row, &RankCounters::peak_tensor_bytes)) : "-",
          ran ? bytes_text(largest(row, &RankCounters::peak_key_value_bytes)) : "-",
          ran ? fmt::format("{:.1f} ms", step * 1e3) : "-",
          fmt::format("{:.2f} s", row.took_s),
          status_name(row.status)};
}

}  // namespace

std::string table_text(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines{{"strategy", "mesh", "dtype", "inputs", "steps", "fp64 error / gate", "ratio / gate",
                                               "sent/rank", "peak/rank", "K/V peak", "step", "took", "status"}};
  for (const Row& row : rows) lines.push_back(cells(row));
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) text += fmt::format("{:<{}}{}", line[i], widths[i], i + 1 < line.size() ? "  " : "");
    text += "\n";
  }
  return text;
}

std::string diffusers_text(const std::vector<Row>& rows) {
  std::string text;
  std::set<std::string> lines;  // rows of several input families repeat them
  for (const Row& row : rows)
    for (const Comparison& c : row.comparisons) {
      if (c.level != Level::diffusers) continue;
      const auto line = fmt::format("  {:<9} {:<20} {:.1e} / {:.0e}  {}\n", c.module, c.output, c.stats.relative_l2, c.limit,
                                    c.pass ? "pass" : "mismatch");
      if (lines.insert(line).second) text += line;
    }
  return text.empty() ? text : "against diffusers' own outputs (relative L2 / gate):\n" + text + "\n";
}

std::string summary_text(const std::vector<Row>& rows) {
  std::string text;
  std::set<std::string> reasons;
  for (const Row& row : rows) {
    if (row.status == Status::pass || !row.reason) continue;
    if (!reasons.insert(*row.reason).second) continue;
    text += fmt::format("{} {} {}: {}\n", status_name(row.status), row.strategy, dtype_name(row.dtype), *row.reason);
    if (row.first_failure && row.first_failure->hint) text += fmt::format("  hint: {}\n", *row.first_failure->hint);
  }
  std::string counts;
  for (const Status status : {Status::pass, Status::mismatch, Status::failed, Status::error}) {
    const auto n = std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.status == status; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, status_name(status));
  }
  return text + fmt::format("{} rows: {}\n", rows.size(), counts);
}

}  // namespace shardproof
