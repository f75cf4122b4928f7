#include "harness/plan_report.hpp"

#include "core/error.hpp"
#include "core/plan_json.hpp"
#include "harness/records.hpp"

#include <algorithm>

namespace shardproof {
namespace {

constexpr int64_t bf16_bytes = 2;

double gigabytes(int64_t parameters) { return static_cast<double>(parameters * bf16_bytes) / 1e9; }

std::string style_text(const Sharding& sharding) {
  const Json style = style_json(sharding);
  if (style.is_string()) return style.get<std::string>();
  return style["style"].get<std::string>() + style["blocks"].dump();
}

/// "[1536 | 768 | 384, 3072]": one number for each degree where they differ.
std::string local_text(const EntryReport& entry) {
  if (entry.modules.empty()) return "-";
  std::vector<std::string> dims;
  for (const size_t dim : {size_t{0}, size_t{1}}) {
    std::vector<std::string> sizes;
    for (const auto& local : entry.local) sizes.push_back(local.empty() ? "x" : std::to_string(local[dim]));
    const bool same = std::all_of(sizes.begin(), sizes.end(), [&](const auto& size) { return size == sizes[0]; });
    dims.push_back(same ? sizes[0] : fmt::format("{}", fmt::join(sizes, " | ")));
  }
  return fmt::format("[{}, {}]", dims[0], dims[1]);
}

std::string saved_text(const EntryReport& entry) {
  std::vector<std::string> saved;
  for (const int64_t parameters : entry.saved) saved.push_back(fmt::format("{:.3f}", gigabytes(parameters)));
  return fmt::format("{}", fmt::join(saved, " | "));
}

using Lines = std::vector<std::vector<std::string>>;

std::string aligned(const Lines& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) row += i + 1 < line.size() ? fmt::format("{:<{}}  ", line[i], widths[i]) : line[i];
    text += row + "\n";
  }
  return text;
}

std::string entries_text(const PlanReport& report) {
  Lines lines{{"entry", "style", "modules", "weight", fmt::format("on a rank, tp {}", fmt::join(report.degrees, " | ")),
               "GB saved (bf16)", "all-reduces", "verdict"}};
  for (const EntryReport& e : report.entries)
    lines.push_back({e.key, style_text(e.sharding), std::to_string(e.modules.size()),
                     e.modules.empty() ? "-" : fmt::format("[{}, {}]", e.out_features, e.in_features), local_text(e),
                     saved_text(e), e.all_reduces > 0 ? std::to_string(e.all_reduces) : "-", e.good ? "ok" : "fault"});
  return aligned(lines);
}

std::string totals_text(const PlanReport& report) {
  Lines lines{{"tp", "parameters on a rank", "GB (bf16)", "of the whole"}};
  for (size_t d = 0; d < report.degrees.size(); ++d)
    lines.push_back(
        {std::to_string(report.degrees[d]), std::to_string(report.per_rank[d]),
         fmt::format("{:.2f}", gigabytes(report.per_rank[d])),
         fmt::format("{:.1f} %", 100.0 * static_cast<double>(report.per_rank[d]) / static_cast<double>(report.parameters))});
  return aligned(lines);
}

std::string faults_text(const PlanReport& report) {
  std::string text;
  for (const PlanFault& fault : report.faults) text += "[plan] " + fault_text(fault) + "\n";
  if (report.faults.empty()) return "0 faults: every layout was followed from input to output\n";
  text += fmt::format("{} fault{}", report.faults.size(), report.faults.size() == 1 ? "" : "s");
  return text + (report.repaired ? "; with all that is said to be right, the plan was checked again and found right\n" : "\n");
}

Json edit_json(const PlanEdit& edit) {
  return {{"key", edit.key}, {"style", edit.style ? style_json(*edit.style) : Json(nullptr)}};
}

Json fault_json(const PlanFault& fault) {
  Json fix = Json::array();
  for (const PlanEdit& edit : fault.fix) fix.push_back(edit_json(edit));
  return {{"rule", fault.rule},
          {"key", fault.key.empty() ? Json(nullptr) : Json(fault.key)},
          {"style", fault.style ? style_json(*fault.style) : Json(nullptr)},
          {"modules", fault.modules},
          {"tp", fault.degrees},
          {"why", fault.why},
          {"fix", fix},
          {"text", fault_text(fault)}};
}

Json entry_json(const EntryReport& e) {
  Json local = Json::array(), saved = Json::array();
  for (const auto& shape : e.local) local.push_back(shape.empty() ? Json(nullptr) : Json(shape));
  for (const int64_t parameters : e.saved) saved.push_back(parameters * bf16_bytes);
  return {{"key", e.key},
          {"style", style_json(e.sharding)},
          {"modules", e.modules},
          {"weight", e.modules.empty() ? Json(nullptr) : Json{e.out_features, e.in_features}},
          {"local", local},
          {"bf16_bytes_saved_per_rank", saved},
          {"all_reduces", e.all_reduces},
          {"verdict", e.good ? "ok" : "fault"}};
}

}  // namespace

std::string plan_report_text(const PlanReport& report) {
  return fmt::format("{}\n{}\n{} all-reduces a forward; heads and planned dimensions allow tp {}\n\n{}", entries_text(report),
                     totals_text(report), report.all_reduces, fmt::join(report.legal_degrees, ", "), faults_text(report));
}

Json plan_report_json(const PlanReport& report, const std::string& model, const std::string& plan_source) {
  Json entries = Json::array(), totals = Json::array(), faults = Json::array();
  for (const EntryReport& entry : report.entries) entries.push_back(entry_json(entry));
  for (const PlanFault& fault : report.faults) faults.push_back(fault_json(fault));
  for (size_t d = 0; d < report.degrees.size(); ++d)
    totals.push_back(
        {{"tp", report.degrees[d]}, {"parameters", report.per_rank[d]}, {"bf16_bytes", report.per_rank[d] * bf16_bytes}});
  return {{"schema", "shardproof.plan_check/1"},
          {"model", model},
          {"plan", plan_source},
          {"status", report.faults.empty() ? "pass" : "mismatch"},
          {"parameters", report.parameters},
          {"tp", report.degrees},
          {"legal_tp", report.legal_degrees},
          {"all_reduces", report.all_reduces},
          {"entries", entries},
          {"per_rank", totals},
          {"faults", faults},
          {"repaired", report.repaired ? plan_json(*report.repaired) : Json(nullptr)}};
}

std::string plan_report_junit(const PlanReport& report, const std::string& model) {
  std::vector<std::pair<std::string, std::string>> cases;  // name, failure
  for (const EntryReport& entry : report.entries) cases.emplace_back(entry.key, "");
  for (const int64_t degree : report.degrees) cases.emplace_back(fmt::format("heads at tp {}", degree), "");
  const auto fail = [&](const std::string& name, const std::string& text) {
    auto found = std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c.first == name; });
    if (found == cases.end()) found = cases.insert(cases.end(), {name, ""});
    found->second += (found->second.empty() ? "" : "; ") + text;
  };
  for (const PlanFault& fault : report.faults) {
    if (!fault.key.empty())
      fail(fault.key, fault_text(fault));
    else
      for (const int64_t degree : fault.degrees) fail(fmt::format("heads at tp {}", degree), fault_text(fault));
  }
  const auto failures = std::count_if(cases.begin(), cases.end(), [](const auto& c) { return !c.second.empty(); });
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"shardproof plan check {}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"0\">\n",
      xml_escaped(model), cases.size(), failures);
  for (const auto& [name, failure] : cases) {
    text += fmt::format("  <testcase classname=\"plan\" name=\"{}\"", xml_escaped(name));
    text += failure.empty() ? "/>\n" : fmt::format("><failure message=\"{}\"/></testcase>\n", xml_escaped(failure));
  }
  return text + "</testsuite>\n";
}

}  // namespace shardproof
