#include "core/dtype.hpp"
#include "core/error.hpp"
#include "harness/command.hpp"
#include "harness/host_memory.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"
#include "harness/parallel_config.hpp"
#include "harness/progress.hpp"
#include "harness/records.hpp"
#include "harness/table.hpp"
#include "harness/verify.hpp"
#include "strategies/registry.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>

namespace shardproof {
namespace {

struct Options {
  std::string model, strategies = "all", comm = "local", dtypes = "fp64,fp32,bf16,fp16", attention = "kokkos_flash", shape, mask = "none";
  std::string inputs = "randn,structured,negative_logits", steps = "1", out, junit, require, expect_failed;
  std::string mesh, parallel_config, load = "sharded";
  int ranks = 4;
  int64_t text = -1;
  uint64_t seed = 0;
  double guidance = 4;
  bool json = false, dry_run = false;
};

std::vector<std::string> split_commas(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

int64_t parse_number(const std::string& text, const std::string& what, const std::string& accepted) {
  size_t used = 0;
  int64_t value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (text.empty() || used != text.size() || value < 1 || value > 1'000'000)
    fail_input("usage", "{} \"{}\" is not understood; accepted: {}", what, text, accepted);
  return value;
}

std::vector<int64_t> parse_steps(const std::string& list) {
  std::vector<int64_t> steps;
  for (const auto& item : split_commas(list)) steps.push_back(parse_number(item, "--steps", "numbers from 1, e.g. 1,4"));
  if (steps.empty()) fail_input("usage", "--steps is empty; accepted: numbers from 1, e.g. 1,4");
  return steps;
}

/// "1024x1024" pixels (16 a token) or "tokens=N", as square as N allows.
void parse_shape(const std::string& text, Shape& shape) {
  const std::string accepted = "HEIGHTxWIDTH in pixels, multiples of 16, e.g. 1024x1024, or tokens=N";
  if (text.empty()) return;
  if (text.starts_with("tokens=")) {
    const int64_t tokens = parse_number(text.substr(7), "--shape", accepted);
    shape.height = 1;
    for (int64_t h = 1; h * h <= tokens; ++h)
      if (tokens % h == 0) shape.height = h;
    shape.width = tokens / shape.height;
    return;
  }
  const size_t x = text.find('x');
  if (x == text.npos) fail_input("usage", "--shape \"{}\" is not understood; accepted: {}", text, accepted);
  const int64_t height = parse_number(text.substr(0, x), "--shape", accepted), width = parse_number(text.substr(x + 1), "--shape", accepted);
  if (height % 16 != 0 || width % 16 != 0) fail_input("usage", "--shape \"{}\" is not understood; accepted: {}", text, accepted);
  shape.height = height / 16;
  shape.width = width / 16;
}

void check_comm(const std::string& comm) {
  if (comm == "gloo" || comm == "nccl") fail_missing("comm", "communicator {} is not part of this build; accepted here: local", comm);
  if (comm != "local") fail_input("comm", "unknown communicator \"{}\"; accepted: local, gloo, nccl", comm);
}

bool all_rows(const std::vector<Row>& rows, std::string_view strategy, Status status) {
  int found = 0;
  for (const Row& row : rows) {
    if (row.strategy != strategy) continue;
    ++found;
    if (row.status != status) return false;
  }
  return found > 0;
}

/// Names of strategies in `list` whose rows do not all have `status`.
std::vector<std::string> not_all(const std::vector<Row>& rows, const std::string& list, Status status) {
  std::vector<std::string> names;
  if (list.empty()) return names;
  for (const Strategy* strategy : parse_strategies(list)) {
    const bool present = std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.strategy == strategy->name(); });
    if (list == "all" && !present) continue;  // all that were asked for
    if (!all_rows(rows, strategy->name(), status)) names.emplace_back(strategy->name());
  }
  return names;
}

int exit_code(const std::vector<Row>& rows, const Options& options) {
  const auto has = [&](Status status) { return std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.status == status; }); };
  const auto required = not_all(rows, options.require, Status::pass);
  const auto expected = not_all(rows, options.expect_failed, Status::failed);
  if (!required.empty()) fmt::print(stderr, "[verify] required but not passed everywhere: {}\n", fmt::join(required, ", "));
  if (!expected.empty()) fmt::print(stderr, "[verify] expected to be failed but not so: {}\n", fmt::join(expected, ", "));
  const bool only_expected_failures = !options.expect_failed.empty() && expected.empty();
  if (!has(Status::pass) && !only_expected_failures) fmt::print(stderr, "[verify] no row passed\n");
  const bool good = !has(Status::mismatch) && !has(Status::error) && has(Status::pass) && required.empty() && expected.empty();
  return good ? exit_status::passed : exit_status::not_passed;
}

VerifyRequest make_request(const Options& o) {
  VerifyRequest request;
  if (o.parallel_config.empty())
    request.candidates = parse_candidates(o.strategies, o.ranks, o.mesh.empty() ? std::nullopt : std::optional(o.mesh));
  else
    request.candidates = {parse_parallel_config(read_json(o.parallel_config), o.parallel_config, o.ranks)};
  if (o.load != "sharded" && o.load != "full") fail_input("usage", "--load \"{}\" is not understood; accepted: sharded, full", o.load);
  request.full_load = o.load == "full";
  request.dtypes = parse_dtypes(o.dtypes);
  request.families = parse_families(o.inputs);
  request.steps = parse_steps(o.steps);
  parse_shape(o.shape, request.shape);
  if (o.text >= 0) request.shape.text_tokens = o.text;
  if (request.shape.text_tokens < 1) fail_input("usage", "--text {} is out of range; accepted: 1 and more", o.text);
  const auto backend = make_attention_backend(o.attention);
  if (backend->traits().device != "cpu")
    fail_missing("attention", "backend {} runs on {}, this build on cpu; accepted here: kokkos_flash, kokkos_naive, aten_flash, aten_math", o.attention,
                 backend->traits().device);
  request.attention = std::string(backend->name());
  if (o.mask != "none" && o.mask != "padded") fail_input("usage", "--mask \"{}\" is not understood; accepted: none, padded", o.mask);
  request.padded_mask = o.mask == "padded";
  request.seed = o.seed;
  request.guidance = o.guidance;
  if (!o.require.empty()) parse_strategies(o.require);
  if (!o.expect_failed.empty()) parse_strategies(o.expect_failed);
  return request;
}

/// The fp64 oracle and an fp64 model hold every weight at once; a machine that cannot is told so before any is made.
void check_memory(const ModelSpec& spec) {
  const int64_t parameters = parameter_count(spec.traits);
  const int64_t needed = parameters * 2 * 8, available = available_memory();
  constexpr double gib = 1 << 30;
  if (needed > available)
    fail_missing("memory", "{} has {} parameters: fp64 parity needs about {:.0f} GiB, {:.0f} GiB are free; accepted here: smaller models, e.g. "
                 "flux1-tiny, flux1-small", spec.name, parameters, static_cast<double>(needed) / gib, static_cast<double>(available) / gib);
}

void dry_run(const VerifyRequest& request, const Subject& subject) {
  for (const Candidate& candidate : request.candidates) {
    const auto reason = cannot_run(subject, request, candidate, request.dtypes.front());
    fmt::print("{:<14} {:<16} {}\n", candidate.strategy->name(), candidate.mesh.text(), reason ? "failed: " + *reason : "would run");
  }
}

/// Again, now that the model is known: a product's default mesh is one that the model allows.
void choose_meshes(VerifyRequest& request, const Options& o, const Subject& subject) {
  const Legal legal = [&](const Strategy& strategy, const MeshShape& mesh) {
    return !cannot_run(subject, request, {&strategy, mesh}, request.dtypes.front());
  };
  if (o.parallel_config.empty())
    request.candidates = parse_candidates(o.strategies, o.ranks, o.mesh.empty() ? std::nullopt : std::optional(o.mesh), legal);
}

int run_verify(const Options& o, const Invocation& invocation) {
  check_comm(o.comm);
  VerifyRequest request = make_request(o);
  for (const auto& file : {o.out, o.junit})
    if (!file.empty()) check_writable(file);
  const Subject subject = load_subject(o.model, o.seed);
  choose_meshes(request, o, subject);
  if (o.dry_run) {
    dry_run(request, subject);
    return exit_status::passed;
  }
  check_memory(subject.spec);
  Progress progress;
  request.progress = [&](const std::string& what) { progress(what); };
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Row> rows = verify(subject, request);
  progress.clear();

  const RunContext context{"verify", subject.spec.name, subject.weights->hash(), o.comm, request.attention, o.mask, o.seed,
                           describe_environment(invocation.argc, invocation.argv)};
  if (!o.out.empty()) write_file(o.out, to_json_lines(rows, context));
  if (!o.junit.empty()) write_file(o.junit, to_junit(rows, context));
  if (o.json) {
    fmt::print("{}", to_json_lines(rows, context));
  } else {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} on {} image + {} text tokens, attention {}, comm {}, seed {}\n\n{}\n{}{}took {:.1f} s\n", subject.spec.name,
               request.shape.image_tokens(), request.shape.text_tokens, request.attention, o.comm, o.seed, table_text(rows), diffusers_text(rows), summary_text(rows), seconds);
  }
  return exit_code(rows, o);
}

}  // namespace

void add_verify(CLI::App& app, const Invocation& invocation, Run& run) {
  auto* command = app.add_subcommand("verify",
                                     "Runs strategies on N ranks and compares every module, and the result, with one device in fp64.\n"
                                     "Example: shardproof verify --model tests/data/flux1-oracle --strategies all --ranks 4 --out rows.jsonl");
  auto options = std::make_shared<Options>();
  Options& o = *options;
  command->add_option("--model", o.model, "A diffusers folder (config.json, *.safetensors) or a preset; see shardproof list")->required();
  auto* strategies = command->add_option("--strategies", o.strategies, "Comma-separated, or all; degrees in brackets: ulysses[ulysses=4]")->capture_default_str();
  command->add_option("--ranks", o.ranks, "Number of ranks N")->capture_default_str();
  auto* mesh = command->add_option("--mesh", o.mesh, "AXIS=DEGREE,… for the strategies that have exactly these axes; product N");
  command->add_option("--parallel-config", o.parallel_config, "Instead: a JSON file with the fields of diffusers' ContextParallelConfig and TensorParallelConfig")
      ->excludes(strategies)
      ->excludes(mesh);
  command->add_option("--load", o.load, "sharded: each rank reads its slices; full: the strategy is applied to a loaded model")->capture_default_str();
  command->add_option("--comm", o.comm, "local: virtual ranks in this process")->capture_default_str();
  command->add_option("--dtype", o.dtypes, "fp64, fp32, bf16, fp16")->capture_default_str();
  command->add_option("--attention", o.attention, "Attention backend, by our name or by diffusers'; see shardproof list")->capture_default_str();
  command->add_option("--shape", o.shape, "Image size in pixels, 1024x1024, or tokens=N (default: 48 tokens)");
  command->add_option("--text", o.text, "Text tokens (default: 24)");
  command->add_option("--mask", o.mask, "Key-padding mask over the text: none, or padded (two prompts of different lengths)")->capture_default_str();
  command->add_option("--inputs", o.inputs, "Input families")->capture_default_str();
  command->add_option("--steps", o.steps, "Denoising steps; several as a list: 1,4")->capture_default_str();
  command->add_option("--guidance", o.guidance, "Guidance scale, for checkpoints that take it (4 is exact in every dtype)")->capture_default_str();
  command->add_option("--seed", o.seed, "Seed of inputs and of a preset's weights")->capture_default_str();
  command->add_option("--out", o.out, "Write records (JSON lines) to this file");
  command->add_option("--junit", o.junit, "Write JUnit XML to this file");
  command->add_flag("--json", o.json, "Print records instead of the table");
  command->add_flag("--dry-run", o.dry_run, "Only say what would run, and what cannot and why");
  command->add_option("--require", o.require, "Strategies (or all) that must pass in every row, else exit 1");
  command->add_option("--expect-failed", o.expect_failed, "Strategies that must be failed in every row, else exit 1");
  command->footer(
      "Row status: pass; mismatch: a gate was left; failed: the strategy cannot run this request; error: it broke.\n"
      "Exit status: 0 nothing wrong and something passed, 1 otherwise, 2 bad usage or input, 3 this machine lacks something.");
  command->callback([options, &invocation, &run] { run = [options, &invocation] { return run_verify(*options, invocation); }; });
}

}  // namespace shardproof
