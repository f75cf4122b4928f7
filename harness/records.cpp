#include "harness/records.hpp"

#include "core/dtype.hpp"
#include "core/error.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

namespace shardproof {
namespace {

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string verdict(bool pass) { return pass ? "pass" : "mismatch"; }

Json comparison_json(const Comparison& c) {
  return {{"gate", c.logic ? "logic" : "precision"},
          {"level", level_name(c.level)},
          {"module", c.module},
          {"output", c.output},
          {"error", finite(c.stats.relative_l2)},
          {"single_error", c.single_error ? finite(*c.single_error) : Json(nullptr)},
          {"ratio", c.ratio ? finite(*c.ratio) : Json(nullptr)},
          {"limit", c.limit},
          {"status", verdict(c.pass)},
          {"max_abs", finite(c.stats.max_abs)},
          {"max_rel", finite(c.stats.max_rel)},
          {"cosine", finite(c.stats.cosine)},
          {"psnr_db", finite(c.stats.psnr_db)},
          {"worst_index", c.stats.worst_index},
          {"rank", or_null(c.rank)}};
}

/// A gate's verdict over a row: mismatch when any of its comparisons is.
Json gate_json(const Row& row, bool logic) {
  const Comparison* c = worst(row, logic);
  if (!c) return nullptr;
  Json gate{{"status", verdict(c->pass)}, {"limit", c->limit}};
  gate[logic ? "worst" : "worst_ratio"] = finite(logic ? c->stats.relative_l2 : c->ratio.value_or(0));
  gate["module"] = c->module;
  return gate;
}

Json counters_json(const Row& row) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < row.counters.size(); ++rank) {
    const RankCounters& c = row.counters[rank];
    ranks.push_back({{"rank", rank},
                     {"bytes_sent", c.bytes_sent},
                     {"messages", c.messages},
                     {"peak_tensor_bytes", c.peak_tensor_bytes},
                     {"weight_bytes", c.weight_bytes},
                     {"peak_key_value_bytes", c.peak_key_value_bytes}});
  }
  return {{"per_rank", ranks}, {"wire_cost_bytes", row.wire_cost_bytes.empty() ? Json(nullptr) : Json(row.wire_cost_bytes)}, {"bytes_read", nullptr}};
}

Json times_json(const Row& row) {
  if (row.step_s.empty()) return nullptr;
  std::vector<double> sorted = row.step_s;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return {{"step_s", {{"median", (sorted[(n - 1) / 2] + sorted[n / 2]) / 2}, {"min", sorted.front()}, {"max", sorted.back()}, {"n", n}}},
          {"what", "critical path over virtual ranks on one CPU, communication not counted"}};
}

Json mesh_json(const MeshShape& mesh) {
  Json json = Json::object();
  for (const auto& [axis, degree] : mesh.degrees()) json[std::string(axis_name(axis))] = degree;
  return json;
}

Json failure_json(const Row& row) {
  if (!row.first_failure) return nullptr;
  const FirstFailure& f = *row.first_failure;
  return {{"module", f.module}, {"rank", or_null(f.rank)}, {"plan_entries", f.plan_entries}, {"hint", or_null(f.hint)}};
}

std::string case_name(const Row& row) {
  return fmt::format("{}[{}] {} {} {} steps", row.strategy, row.mesh.text(), dtype_name(row.dtype), row.family, row.steps);
}

}  // namespace

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

Json to_record(const Row& row, const RunContext& context) {
  const Environment& e = context.environment;
  Json levels = Json::array();
  for (const Comparison& c : row.comparisons) levels.push_back(comparison_json(c));
  return {{"schema", "shardproof.record/2"},
          {"command", context.command},
          {"model", context.model},
          {"checkpoint_hash", context.checkpoint_hash},
          {"strategy", row.strategy},
          {"mesh", mesh_json(row.mesh)},
          {"ranks", row.ranks},
          {"comm", context.comm},
          {"dtype", dtype_name(row.dtype)},
          {"attention", context.attention},
          {"shape", {{"batch", row.shape.batch}, {"image_tokens", row.shape.image_tokens()}, {"text_tokens", row.shape.text_tokens}}},
          {"inputs", row.family},
          {"steps", row.steps},
          {"seed", context.seed},
          {"mask", context.mask},
          {"status", status_name(row.status)},
          {"reason", or_null(row.reason)},
          {"logic", gate_json(row, true)},
          {"precision", gate_json(row, false)},
          {"levels", levels},
          {"first_failure", failure_json(row)},
          {"counters", counters_json(row)},
          {"times", times_json(row)},
          {"versions", e.versions},
          {"commit", e.commit},
          {"machine", e.machine},
          {"threads", e.threads},
          {"started", e.started},
          {"command_line", e.command_line}};
}

std::string to_json_lines(const std::vector<Row>& rows, const RunContext& context) {
  std::string text;
  for (const Row& row : rows) text += to_record(row, context).dump() + "\n";
  return text;
}

std::string to_junit(const std::vector<Row>& rows, const RunContext& context) {
  const auto number = [&](Status status) { return std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return r.status == status; }); };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"shardproof {} {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      context.command, xml_escaped(context.model), rows.size(), number(Status::mismatch), number(Status::error), number(Status::failed));
  for (const Row& row : rows) {
    const std::string reason = xml_escaped(row.reason.value_or(""));
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", xml_escaped(row.strategy), xml_escaped(case_name(row)), row.took_s);
    if (row.status == Status::pass) text += "/>\n";
    if (row.status == Status::mismatch) text += fmt::format("><failure message=\"{}\"/></testcase>\n", reason);
    if (row.status == Status::error) text += fmt::format("><error message=\"{}\"/></testcase>\n", reason);
    if (row.status == Status::failed) text += fmt::format("><skipped message=\"{}\"/></testcase>\n", reason);
  }
  return text + "</testsuite>\n";
}

void check_writable(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder))
    fail_input("records", "{}: the folder does not exist; accepted: a file in an existing folder", file.string());
  if (std::filesystem::is_directory(file)) fail_input("records", "{}: is a folder; accepted: a file's name", file.string());
  if (access(folder.c_str(), W_OK) != 0) fail_input("records", "{}: the folder cannot be written to", file.string());
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  // Signals wait for the few milliseconds between the temporary file and its rename, so that none is left behind.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const std::filesystem::path temporary = file.string() + fmt::format(".tmp{}", getpid());
  std::error_code failure;
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream << text;
    stream.flush();
    if (!stream) failure = std::make_error_code(std::errc::io_error);
  }
  if (!failure) std::filesystem::rename(temporary, file, failure);
  std::error_code ignored;
  if (failure) std::filesystem::remove(temporary, ignored);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (failure) fail_runtime("records", "{}: cannot be written: {}", file.string(), failure.message());
}

}  // namespace shardproof
