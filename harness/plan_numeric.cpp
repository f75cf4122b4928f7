#include "harness/plan_numeric.hpp"

#include "core/error.hpp"
#include "core/model_config.hpp"
#include "core/plan_json.hpp"
#include "harness/planned_model.hpp"
#include "harness/shared_weights.hpp"
#include "strategies/tp.hpp"

namespace shardproof {
namespace {

/// Remembers the module that was entered or left last.
class Tracker final : public Probe {
 public:
  explicit Tracker(std::string& last) : last_(last) {}
  void input(const std::string& module, const char*, Tensor&, const Layout&) override { last_ = module; }
  void output(const std::string& module, const char*, const Tensor&, const Layout&) override { last_ = module; }

 private:
  std::string& last_;
};

/// The module after which a run breaks; "" when it does not, or before any module.
std::string where_it_breaks(const Subject& subject, const Strategy& strategy, const MeshShape& mesh, const NamedTensors& inputs) {
  std::string last;
  const auto shared = std::make_shared<SharedWeights>(subject.weights);
  try {
    run_local(mesh.world_size(), [&](Communicator& world) {
      Session session(subject.spec, strategy, mesh, world, *shared, at::kDouble, make_attention_backend("kokkos_flash"));
      Tracker tracker(last);
      session.forward(inputs, tracker);
    });
  } catch (const std::exception&) {
    return last;
  }
  return "";
}

/// Entries for this module and, for what lies between modules, for the others of its block.
std::string entries_near(const std::string& module, const Plan& plan) {
  const PlanEntry own = plan_entry(plan, module);
  if (!own.glob.empty()) return fmt::format("{}: {}", own.glob, sharding_text(own.sharding));
  std::vector<std::string> near;
  for (const auto& [glob, sharding] : plan.weights) {
    const size_t star = glob.find('*');
    if (star != glob.npos && module.starts_with(glob.substr(0, star))) near.push_back(fmt::format("{}: {}", glob, sharding_text(sharding)));
  }
  return near.empty() ? "none names it" : fmt::format("{}", fmt::join(near, ", "));
}

VerifyRequest request_for(const Strategy& strategy, int64_t degree, const std::function<void(const std::string&)>& progress) {
  VerifyRequest request;
  request.candidates = {{&strategy, MeshShape({{Axis::tp, static_cast<int>(degree)}})}};
  request.dtypes = {at::kDouble};
  request.families = {"negative_logits"};
  request.steps = {1};
  request.attention = "kokkos_flash";
  request.progress = progress;
  return request;
}

void explain(NumericVerdict& verdict, const Subject& subject, const VerifyRequest& request, const Dataflow& dataflow, const PlanEntries& plan) {
  Row& row = verdict.row;
  if (row.first_failure) verdict.module = row.first_failure->module;
  if (row.status == Status::pass) return;
  if (verdict.degree > 1) verdict.explained = check_plan(dataflow, plan, {verdict.degree}).faults;
  if (row.status != Status::error) return;
  const Candidate& candidate = request.candidates.front();
  verdict.module = where_it_breaks(subject, *candidate.strategy, candidate.mesh,
                                   to_dtype(subject.inputs(request.shape, request.families.front(), request.seed, request.guidance), at::kDouble));
  const Plan as_run = candidate.strategy->plan(subject.spec.traits, candidate.mesh);
  if (!verdict.module.empty())
    row.reason = fmt::format("[plan] a shape does not fit after {}; plan: {} ({})", verdict.module, entries_near(verdict.module, as_run), row.reason.value_or(""));
}

std::string family_of(const std::string& preset) { return preset.substr(0, preset.find_last_of('-')); }

}  // namespace

std::string numeric_model(const std::string& model) {
  if (!is_preset(model)) return model;
  const std::string tiny = model == "qwen-image" ? "qwen-image-tiny" : family_of(model) + "-tiny";
  return is_preset(tiny) ? tiny : model;
}

PlanEntries in_proportion(PlanEntries plan) {
  for (auto& [key, sharding] : plan) {
    if (auto* colwise = std::get_if<Colwise>(&sharding)) colwise->blocks = lowest_terms(colwise->blocks);
    if (auto* rowwise = std::get_if<Rowwise>(&sharding)) rowwise->blocks = lowest_terms(rowwise->blocks);
  }
  return plan;
}

std::vector<NumericVerdict> check_plan_numerically(const Subject& subject, const Dataflow& dataflow, const PlanEntries& plan,
                                                   const std::vector<int64_t>& degrees, const std::function<void(const std::string&)>& progress) {
  const auto strategy = tensor_parallel(plan);
  std::vector<NumericVerdict> verdicts;
  for (const int64_t degree : degrees) {
    if (degree > 64) fail_input("usage", "--tp {} with --numeric is out of range; accepted: 1 to 64", degree);
    const VerifyRequest request = request_for(*strategy, degree, progress);
    NumericVerdict verdict;
    verdict.degree = degree;
    verdict.row = verify(subject, request).front();
    explain(verdict, subject, request, dataflow, plan);
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::string numeric_text(const std::vector<NumericVerdict>& verdicts) {
  std::string text;
  for (const NumericVerdict& v : verdicts) {
    const Comparison* worst_of = worst(v.row, true);
    const std::string figure = worst_of ? fmt::format("fp64 error {:.1e} / {:.0e}", worst_of->stats.relative_l2, worst_of->limit) : "";
    text += fmt::format("tp {}: {}{}{}\n", v.degree, status_name(v.row.status), figure.empty() ? "" : ", ", figure);
    if (v.row.reason) text += fmt::format("  {}\n", *v.row.reason);
    for (const PlanFault& fault : v.explained) text += fmt::format("  explained by: {}\n", fault_text(fault));
  }
  return text;
}

Json numeric_json(const std::vector<NumericVerdict>& verdicts) {
  Json list = Json::array();
  for (const NumericVerdict& v : verdicts) {
    const Comparison* worst_of = worst(v.row, true);
    Json explained = Json::array();
    for (const PlanFault& fault : v.explained) explained.push_back(fault_text(fault));
    list.push_back({{"tp", v.degree},
                    {"status", status_name(v.row.status)},
                    {"reason", v.row.reason ? Json(*v.row.reason) : Json(nullptr)},
                    {"module", v.module.empty() ? Json(nullptr) : Json(v.module)},
                    {"fp64_error", worst_of ? Json(worst_of->stats.relative_l2) : Json(nullptr)},
                    {"explained_by", explained}});
  }
  return list;
}

bool all_passed(const std::vector<NumericVerdict>& verdicts) {
  bool passed = false;
  for (const NumericVerdict& v : verdicts) {
    if (v.row.status == Status::mismatch || v.row.status == Status::error) return false;
    passed = passed || v.row.status == Status::pass;
  }
  return passed;
}

}  // namespace shardproof
