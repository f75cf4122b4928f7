#include "core/error.hpp"
#include "core/plan_json.hpp"
#include "harness/command.hpp"
#include "harness/plan_numeric.hpp"
#include "harness/plan_report.hpp"
#include "harness/planned_model.hpp"
#include "harness/progress.hpp"
#include "harness/records.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

namespace shardproof {
namespace {

struct Options {
  std::string model, plan, degrees = "2,4,8", junit;
  bool json = false, numeric = false;
  uint64_t seed = 0;
};

std::vector<int64_t> parse_degrees(const std::string& list) {
  std::vector<int64_t> degrees;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    const bool digits = !item.empty() && item.size() < 7 && item.find_first_not_of("0123456789") == item.npos;
    const int64_t degree = digits ? std::stoll(item) : 0;
    if (degree < 1) fail_input("usage", "--tp \"{}\" is not understood; accepted: whole numbers from 1, e.g. 2,4,8", item);
    if (std::find(degrees.begin(), degrees.end(), degree) == degrees.end()) degrees.push_back(degree);
  }
  if (degrees.empty()) fail_input("usage", "--tp is empty; accepted: whole numbers from 1, e.g. 2,4,8");
  return degrees;
}

int show(const Options& o) {
  fmt::print("{}", plan_text(load_planned_model(o.model).tp_plan));
  return exit_status::passed;
}

/// The same plan on the model that is run, whose blocks have the same proportions.
std::vector<NumericVerdict> run_numerically(const Options& o, const std::vector<int64_t>& degrees) {
  const std::string model = numeric_model(o.model);
  const Dataflow dataflow = load_planned_model(model).dataflow;
  const auto plan = o.plan.empty() ? load_planned_model(model).tp_plan : in_proportion(with_stored_blocks(parse_plan(read_json(o.plan), o.plan), dataflow));
  Progress progress;
  auto verdicts = check_plan_numerically(load_subject(model, o.seed), dataflow, plan, degrees, [&](const std::string& what) { progress(what); });
  progress.clear();
  return verdicts;
}

int check(const Options& o) {
  const auto degrees = parse_degrees(o.degrees);
  if (!o.junit.empty()) check_writable(o.junit);
  const PlannedModel model = load_planned_model(o.model);
  const auto plan = o.plan.empty() ? model.tp_plan : with_stored_blocks(parse_plan(read_json(o.plan), o.plan), model.dataflow);
  const PlanReport report = check_plan(model.dataflow, plan, degrees);

  const std::string source = o.plan.empty() ? "shipped" : o.plan;
  if (!o.junit.empty()) write_file(o.junit, plan_report_junit(report, model.name));
  std::vector<NumericVerdict> numeric;
  if (o.numeric) numeric = run_numerically(o, degrees);
  if (o.json) {
    Json json = plan_report_json(report, model.name, source);
    json["numeric"] = o.numeric ? numeric_json(numeric) : Json(nullptr);
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}, {} parameters, {:.3f} GB in bf16; plan: {}\n\n{}", model.name, report.parameters,
               static_cast<double>(report.parameters) * 2 / 1e9, source, plan_report_text(report));
  }
  if (o.numeric && !o.json) fmt::print("\non virtual ranks, {}, fp64 against the reference:\n{}", numeric_model(o.model), numeric_text(numeric));
  if (o.numeric && !all_passed(numeric)) return exit_status::not_passed;
  return report.faults.empty() ? exit_status::passed : exit_status::not_passed;
}

void add_show(CLI::App& plan, Run& run) {
  auto* command = plan.add_subcommand("show",
                                      "Prints the tensor-parallel plan that diffusers ships for the model, as JSON.\n"
                                      "Example: shardproof plan show --model flux2-dev > plan.json");
  auto options = std::make_shared<Options>();
  command->add_option("--model", options->model, "A diffusers folder (config.json) or a preset; see shardproof list")->required();
  command->callback([options, &run] { run = [options] { return show(*options); }; });
}

void add_check(CLI::App& plan, Run& run) {
  auto* command =
      plan.add_subcommand("check",
                          "Follows every layout through the model's blocks, from shapes alone, and says what a plan gets wrong.\n"
                          "Example: shardproof plan check --model flux1-dev --plan plan.json --tp 2,4,8");
  auto options = std::make_shared<Options>();
  Options& o = *options;
  command->add_option("--model", o.model, "A diffusers folder (config.json) or a preset; see shardproof list")->required();
  command->add_option("--plan", o.plan, "A plan file (default: the plan that diffusers ships); see docs/plan_author.md");
  command->add_option("--tp", o.degrees, "Degrees to check, as a list")->capture_default_str();
  command->add_flag("--json", o.json, "Print one JSON object instead of the tables");
  command->add_flag("--numeric", o.numeric, "Also run the plan on virtual ranks against the reference: on the folder's weights, for presets on the family's tiny one");
  command->add_option("--seed", o.seed, "Seed of a preset's weights, for --numeric")->capture_default_str();
  command->add_option("--junit", o.junit, "Write JUnit XML to this file");
  command->footer("Exit status: 0 the plan is right, 1 a fault was found, 2 bad usage or input.");
  command->callback([options, &run] { run = [options] { return check(*options); }; });
}

}  // namespace

void add_plan(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("plan", "Tensor-parallel plans as data: show the shipped one, check one's own.");
  command->require_subcommand(1);
  add_show(*command, run);
  add_check(*command, run);
}

}  // namespace shardproof
