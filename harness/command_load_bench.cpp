#include "core/error.hpp"
#include "harness/command.hpp"
#include "harness/environment.hpp"
#include "harness/host_memory.hpp"
#include "harness/load_rank.hpp"
#include "harness/planned_model.hpp"
#include "harness/preset_checkpoint.hpp"
#include "harness/progress.hpp"
#include "harness/records.hpp"
#include "models/checkpoint.hpp"
#include "strategies/shard_slices.hpp"
#include "strategies/tp.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <sstream>

namespace shardproof {
namespace {

struct Options {
  std::string model, degrees = "1,2,4,8", paths = "sharded,full", work, out;
  int64_t repeat = 3;
  uint64_t seed = 0;
  bool json = false, all_ranks = false;
};

struct LoadRow {
  int tp = 1;
  bool full = false;
  std::string status = "pass";
  std::optional<std::string> reason;
  std::vector<double> seconds;  ///< of the slowest rank, per repeat
  LoadResult worst;             ///< of the rank that peaked highest
  std::vector<int> ranks;       ///< that were loaded
};

std::vector<std::string> items(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) result.push_back(item);
  return result;
}

std::vector<int> parse_degrees(const std::string& list) {
  std::vector<int> degrees;
  for (const auto& item : items(list)) {
    const bool digits = !item.empty() && item.size() < 5 && item.find_first_not_of("0123456789") == item.npos;
    if (!digits || std::stoi(item) < 1) fail_input("usage", "--tp \"{}\" is not understood; accepted: whole numbers from 1, e.g. 1,2,4,8", item);
    degrees.push_back(std::stoi(item));
  }
  if (degrees.empty()) fail_input("usage", "--tp is empty; accepted: whole numbers from 1, e.g. 1,2,4,8");
  return degrees;
}

std::vector<bool> parse_paths(const std::string& list) {
  std::vector<bool> full;
  for (const auto& item : items(list)) {
    if (item != "sharded" && item != "full") fail_input("usage", "--path \"{}\" is not understood; accepted: sharded, full", item);
    full.push_back(item == "full");
  }
  if (full.empty()) fail_input("usage", "--path is empty; accepted: sharded, full");
  return full;
}

/// A folder that is removed with what is in it.
class Scratch {
 public:
  explicit Scratch(const std::string& work) {
    const auto parent = work.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(work);
    if (!std::filesystem::is_directory(parent)) fail_input("load-bench", "--work {}: there is no such folder", parent.string());
    std::string pattern = (parent / "shardproof-load-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) fail_input("load-bench", "--work {}: cannot be written to", parent.string());
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes a second of memcpy into memory that was never touched, which page faults bound: what a load cannot beat.
double untouched_memcpy_rate() {
  constexpr size_t size = size_t{256} << 20;
  const std::vector<char> source(size, 1);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    void* fresh = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return 0;
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(fresh, source.data(), size);
    best = std::max(best, static_cast<double>(size) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ::munmap(fresh, size);
  }
  return best;
}

int64_t stored_bytes(const ModelTraits& model, int64_t bytes_per_value, int tp) {
  const MeshShape mesh({{Axis::tp, tp}});
  int64_t elements = 0;
  for (const auto& [name, slice] : rank_slices(model, shardproof::tp().plan(model, mesh), tp, 0)) elements += slice_elements(slice, model.parameters.at(name));
  return elements * bytes_per_value;
}

/// Why this machine cannot hold the load, with the numbers, or nothing.
std::optional<std::string> does_not_fit(const ModelTraits& model, int tp, bool full) {
  constexpr double gb = 1e9;
  constexpr int64_t slack = int64_t{512} << 20;
  const int64_t shard = stored_bytes(model, 2, tp), needed = (full ? stored_bytes(model, 2, 1) : shard) + slack, available = available_memory();
  if (needed <= available) return std::nullopt;
  return fmt::format("[load] needs {:.2f} GB of memory ({} {:.2f} GB and what goes with it), {:.2f} are available", static_cast<double>(needed) / gb,
                     full ? "the whole model's" : "a shard of", static_cast<double>(full ? stored_bytes(model, 2, 1) : shard) / gb,
                     static_cast<double>(available) / gb);
}

LoadRow load(const Options& o, const std::filesystem::path& folder, const ModelTraits& model, int tp, bool full) {
  LoadRow row;
  row.tp = tp;
  row.full = full;
  auto reason = shardproof::tp().unsupported(model, {}, MeshShape({{Axis::tp, tp}}));
  if (!reason) reason = does_not_fit(model, tp, full);
  if (reason) {
    row.status = "failed";
    row.reason = reason;
    return row;
  }
  for (int rank = 0; rank < (o.all_ranks ? tp : 1); ++rank) row.ranks.push_back(rank);
  try {
    for (int64_t turn = 0; turn < o.repeat; ++turn) {
      double slowest = 0;
      for (const int rank : row.ranks) {
        const LoadResult result = load_rank_apart({folder, tp, rank, full});
        slowest = std::max(slowest, result.seconds);
        if (result.anonymous_peak > row.worst.anonymous_peak) row.worst = result;
        if (result.held != result.expected) fail_runtime("load", "rank {} of tp {} holds {} bytes, the plan says {}", rank, tp, result.held, result.expected);
        if (!full && result.bytes_read != result.expected)
          fail_runtime("load", "rank {} of tp {} read {} bytes, its shard is {}", rank, tp, result.bytes_read, result.expected);
      }
      row.seconds.push_back(slowest);
    }
  } catch (const Error& error) {
    row.status = "error";
    row.reason = error.what();
  }
  return row;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::string table(const std::vector<LoadRow>& rows, double memcpy_rate) {
  const auto gb = [](int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / 1e9); };
  std::string text = fmt::format("{:>3}  {:<8} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>8}  status\n", "tp", "path", "seconds", "read GB", "held GB", "anon peak", "file peak",
                                 "peak", "of memcpy");
  for (const LoadRow& row : rows) {
    const char* path = row.full ? "full" : "sharded";
    if (row.status != "pass") {
      text += fmt::format("{:>3}  {:<8} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>8}  {}: {}\n", row.tp, path, "-", "-", "-", "-", "-", "-", "-", row.status, *row.reason);
      continue;
    }
    const LoadResult& r = row.worst;
    const double seconds = median(row.seconds);
    text += fmt::format("{:>3}  {:<8} {:>9.3f} {:>9} {:>9} {:>10} {:>9} {:>9} {:>8.2f}  pass\n", row.tp, path, seconds, gb(r.bytes_read), gb(r.held),
                        gb(r.anonymous_peak - r.anonymous_before), gb(r.file_peak), gb(r.host_peak),
                        memcpy_rate > 0 ? static_cast<double>(r.bytes_read) / seconds / memcpy_rate : 0.0);
  }
  return text;
}

Json record(const LoadRow& row, const std::string& model, const Environment& environment, double memcpy_rate) {
  return {{"schema", "shardproof.load/1"},
          {"model", model},
          {"tp", row.tp},
          {"path", row.full ? "full" : "sharded"},
          {"status", row.status},
          {"reason", row.reason ? Json(*row.reason) : Json(nullptr)},
          {"ranks_loaded", row.ranks},
          {"seconds", row.seconds},
          {"worst_rank", row.seconds.empty() ? Json(nullptr) : to_json(row.worst)},
          {"untouched_memcpy_bytes_per_second", memcpy_rate},
          {"machine", environment.machine},
          {"commit", environment.commit},
          {"started", environment.started},
          {"command_line", environment.command_line}};
}

int run_load_bench(const Options& o, const Invocation& invocation) {
  const auto degrees = parse_degrees(o.degrees);
  const auto paths = parse_paths(o.paths);
  if (o.repeat < 1 || o.repeat > 1000) fail_input("usage", "--repeat {} is out of range; accepted: 1 to 1000", o.repeat);
  if (!o.out.empty()) check_writable(o.out);
  const ModelTraits model = load_model_traits(o.model);
  std::unique_ptr<Scratch> scratch;
  std::filesystem::path folder = o.model;
  std::string source = o.model;
  Progress progress;
  if (is_preset(o.model)) {
    const ModelConfig config = model_preset(o.model);
    const bool sparse = bf16_bytes(config) > (int64_t{2} << 30);
    scratch = std::make_unique<Scratch>(o.work);
    progress(fmt::format("writing {}", o.model));
    write_preset_checkpoint(config, scratch->path(), o.seed, sparse);
    folder = scratch->path();
    source = fmt::format("{}, {:.3f} GB in bf16, {}", o.model, static_cast<double>(bf16_bytes(config)) / 1e9,
                         sparse ? "a sparse checkpoint of the real size (its data is holes)" : "drawn weights");
  } else {
    Checkpoint(folder).names();  // malformed files are bad input, not a failed row
  }
  const double rate = untouched_memcpy_rate();
  std::vector<LoadRow> rows;
  for (const int tp : degrees)
    for (const bool full : paths) {
      progress(fmt::format("tp {} {}", tp, full ? "full" : "sharded"));
      rows.push_back(load(o, folder, model, tp, full));
    }
  progress.clear();

  const Environment environment = describe_environment(invocation.argc, invocation.argv);
  std::string lines;
  for (const LoadRow& row : rows) lines += record(row, o.model, environment, rate).dump() + "\n";
  if (!o.out.empty()) write_file(o.out, lines);
  if (o.json)
    fmt::print("{}", lines);
  else
    fmt::print("{}; {} of each tp group, median of {}; memcpy into untouched memory: {:.2f} GB/s\n\n{}", source, o.all_ranks ? "every rank" : "rank 0", o.repeat,
               rate / 1e9, table(rows, rate));
  const bool error = std::any_of(rows.begin(), rows.end(), [](const LoadRow& row) { return row.status == "error"; });
  const bool passed = std::any_of(rows.begin(), rows.end(), [](const LoadRow& row) { return row.status == "pass"; });
  return !error && passed ? exit_status::passed : exit_status::not_passed;
}

void add_load_rank(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("load-rank", "One rank's load, for load-bench");
  command->group("");  // not in --help: load-bench starts it
  auto request = std::make_shared<LoadRequest>();
  command->add_option("--folder", request->folder)->required();
  command->add_option("--tp", request->tp)->required();
  command->add_option("--rank", request->tp_rank)->required();
  command->add_flag("--full", request->full);
  command->callback([request, &run] {
    run = [request] {
      fmt::print("{}\n", to_json(load_rank(*request)).dump());
      return exit_status::passed;
    };
  });
}

}  // namespace

void add_load_bench(CLI::App& app, const Invocation& invocation, Run& run) {
  auto* command = app.add_subcommand("load-bench",
                                     "Loads one tensor-parallel rank's weights, each time in a process of its own: sharded (only its slices are read) against\n"
                                     "full (everything is read, then sharded). Time, bytes read, and peaks of host memory.\n"
                                     "Example: shardproof load-bench --model flux2-dev --tp 4,8 --path sharded");
  auto options = std::make_shared<Options>();
  Options& o = *options;
  command->add_option("--model", o.model, "A diffusers folder, or a preset, which is written to a scratch folder (above 2 GiB as a sparse file)")->required();
  command->add_option("--tp", o.degrees, "Degrees, as a list")->capture_default_str();
  command->add_option("--path", o.paths, "sharded, full")->capture_default_str();
  command->add_option("--repeat", o.repeat, "Loads of each kind; the median is shown")->capture_default_str();
  command->add_flag("--all-ranks", o.all_ranks, "Load every rank, one after the other, and show the worst (default: rank 0)");
  command->add_option("--work", o.work, "Folder for a preset's checkpoint (default: the system's temporary folder)");
  command->add_option("--seed", o.seed, "Seed of a preset's weights")->capture_default_str();
  command->add_option("--out", o.out, "Write records (JSON lines) to this file");
  command->add_flag("--json", o.json, "Print records instead of the table");
  command->footer("Sharded reads are counted and must equal the shard to the byte. What this machine's memory cannot hold is a failed row with the numbers.\n"
                  "anon peak is what the load added of the process's own memory, file peak what it had mapped, peak the kernel's mark of both.");
  command->callback([options, &invocation, &run] { run = [options, &invocation] { return run_load_bench(*options, invocation); }; });
  add_load_rank(app, run);
}

}  // namespace shardproof
