#pragma once

#include "harness/baseline.hpp"
#include "harness/rank_run.hpp"
#include "harness/row.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

/// A strategy and the mesh it shall run on.
struct Candidate {
  const Strategy* strategy;
  MeshShape mesh;
};

struct VerifyRequest {
  std::vector<Candidate> candidates;
  std::vector<at::ScalarType> dtypes;
  std::vector<std::string> families;
  std::vector<int64_t> steps;
  Shape shape;
  std::string attention;
  bool padded_mask = false;  ///< two prompts, each with its own key-padding mask over the text
  bool full_load = false;    ///< apply the strategies to a loaded model instead of choosing them at load
  uint64_t seed = 0;
  double guidance = 4;
  const FaultInjection* fault = nullptr;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

/// Why a candidate cannot run the request in a dtype, from shapes alone, or nothing.
std::optional<std::string> cannot_run(const Subject& subject, const VerifyRequest& request, const Candidate& candidate, at::ScalarType dtype);

/// Runs every candidate in every dtype, input family and number of steps against one device, module by module and end to
/// end. The logic gate (fp64) is taken once per candidate and family and stands in the rows of every dtype.
/// What cannot run is a `failed` row with its reason, what breaks an `error` row; neither stops the others.
std::vector<Row> verify(const Subject& subject, const VerifyRequest& request);
/// The same with baselines of `subject` that earlier runs may have made.
std::vector<Row> verify(const Subject& subject, const VerifyRequest& request, Baselines& baselines);

}  // namespace shardproof
