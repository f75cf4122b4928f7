#include "harness/bench/paired.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace shardproof::bench {
namespace {

struct Times {
  double wall = 0, cpu = 0;
};

struct Measured {
  std::string name;
  double ours = 0, other = 0, ratio = 0, cpu_ratio = 0, target = 0, rate = 0;  // seconds; work a second
  std::optional<double> error_ratio;
  bool met() const { return ratio >= target && (!error_ratio || *error_ratio <= 1.1); }
};

std::vector<Measured>& measured() {
  static std::vector<Measured> all;
  return all;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Times seconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  call();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), cpu_seconds() - cpu};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(const Paired& paired, benchmark::State& state) {
  const at::InferenceMode guard;
  std::vector<double> ours, other, ratios, cpu_ratios;
  paired.ours();
  paired.other();
  for (auto _ : state) {
    const Times mine = seconds(paired.ours), others = seconds(paired.other);
    ours.push_back(mine.wall);
    other.push_back(others.wall);
    ratios.push_back(others.wall / mine.wall);
    cpu_ratios.push_back(others.cpu / mine.cpu);
    state.SetIterationTime(mine.wall);
  }
  Measured result{paired.name, median(ours), median(other), median(ratios), median(cpu_ratios), paired.target, 0, {}};
  result.rate = static_cast<double>(paired.work) / result.ours;
  if (paired.error_ratio) state.counters["error_ratio"] = *(result.error_ratio = paired.error_ratio());
  state.counters["other_ms"] = result.other * 1e3;
  state.counters["ratio"] = result.ratio;
  state.counters["cpu_ratio"] = result.cpu_ratio;
  state.counters["G_per_s"] = result.rate * 1e-9;
  measured().push_back(result);
}

}  // namespace

void add(Paired paired) {
  const auto name = paired.name;
  const int pairs = paired.pairs;
  benchmark::RegisterBenchmark(name.c_str(), [paired = std::move(paired)](benchmark::State& state) { run(paired, state); })
      ->Iterations(pairs)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void print_summary() {
  fmt::print("\n{:<44} {:>9} {:>9} {:>7} {:>6} {:>9} {:>7} {:>11}  {}\n", "case", "ours ms", "other ms", "G/s", "ratio",
             "cpu ratio", "target", "error ratio", "met");
  int64_t met = 0, judged = 0;
  for (const auto& row : measured()) {
    judged += row.target > 0;
    met += row.target > 0 && row.met();
    fmt::print(
        "{:<44} {:>9.3f} {:>9.3f} {:>7.1f} {:>6.2f} {:>9.2f} {:>7} {:>11}  {}\n", row.name, row.ours * 1e3, row.other * 1e3,
        row.rate * 1e-9, row.ratio, row.cpu_ratio, row.target > 0 ? fmt::format("{:.2f}", row.target) : "-",
        row.error_ratio ? fmt::format("{:.3f}", *row.error_ratio) : "-", row.target > 0 ? (row.met() ? "yes" : "NO") : "-");
  }
  fmt::print("{} of {} targets met\n", met, judged);
}

}  // namespace shardproof::bench
