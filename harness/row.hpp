#pragma once

#include "comm/wire_cost.hpp"
#include "core/json.hpp"
#include "harness/comparison.hpp"
#include "harness/subject.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardproof {

/// A row's verdict, in the words of the command line (docs/architecture.md).
enum class Status { pass, mismatch, failed, error };
std::string status_name(Status status);

struct FirstFailure {
  std::string module;
  std::optional<int> rank;
  std::vector<std::string> plan_entries;
  std::optional<std::string> hint;
};

struct RankCounters {
  int64_t bytes_sent = 0, messages = 0, peak_tensor_bytes = 0, weight_bytes = 0, peak_key_value_bytes = 0;
};

/// One row of a table: one strategy on one mesh, dtype, input family and number of steps.
struct Row {
  std::string strategy;
  MeshShape mesh;
  int ranks = 1;
  at::ScalarType dtype = at::kDouble;
  std::string family;
  int64_t steps = 1;
  Shape shape;
  Status status = Status::pass;
  std::optional<std::string> reason;
  std::vector<Comparison> comparisons;
  std::optional<FirstFailure> first_failure;
  std::vector<RankCounters> counters;
  std::vector<int64_t> wire_cost_bytes;  ///< predicted, by rank
  std::vector<double> step_s;
  double took_s = 0;  ///< wall time this row added to the run
};

/// The comparison nearest to (or furthest over) its gate, of one kind; null when there is none. Comparisons with diffusers'
/// stored outputs have gates of their own and count only when they did not pass.
const Comparison* worst(const Row& row, bool logic);

}  // namespace shardproof
