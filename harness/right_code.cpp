#include "core/dtype.hpp"
#include "core/error.hpp"
#include "harness/inputs.hpp"
#include "harness/meshes.hpp"
#include "harness/selftest.hpp"

#include <algorithm>
#include <array>

namespace shardproof {
namespace {

/// Strategies that run together on one seed.
struct Group {
  const char* strategies;
  bool any_length = false;
  int least_ranks = 2;
};
constexpr std::array<Group, 7> groups{{{"single,data_parallel,tp"},
                                       {"ulysses,ring"},
                                       {"ring_p2p,ring_unconverted"},
                                       {"ulysses_anything,ring_anything", true},
                                       {"unified,unified_anything", false, 4},
                                       {"tp+ulysses,tp+ring", false, 4},
                                       {"tp+unified_anything", true, 8}}};

/// The case of a seed. Groups take turns; within a group ranks, families, masks and lengths do, with periods that have no
/// common factor, so that 420 seeds see every combination and 50 every value of each.
VerifyRequest right_case(int64_t seed, const std::string& attention) {
  constexpr std::array<int, 5> rank_counts{2, 3, 4, 6, 8};
  const auto size = static_cast<int64_t>(groups.size());
  const Group& group = groups[seed % size];
  const int64_t round = seed / size;
  const int ranks = std::max(rank_counts[(round + seed % size) % rank_counts.size()], group.least_ranks);
  VerifyRequest request;
  request.candidates = parse_candidates(group.strategies, ranks, std::nullopt);
  request.dtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  request.families = {input_families()[(round + seed % size) % input_families().size()]};
  request.steps = {1};
  request.shape = group.any_length && round % 2 == 1 ? Shape{1, 5, 5, 9} : Shape{1, 4, 6, 24};
  request.padded_mask = round % 4 >= 2;
  request.attention = attention;
  request.seed = static_cast<uint64_t>(seed);
  return request;
}

void note_nearest(FalseAlarms& result, const Row& row) {
  for (const Comparison& c : row.comparisons) {
    const double figure = c.logic ? c.stats.relative_l2 : c.ratio.value_or(0);
    auto& entry =
        result.nearest[fmt::format("{} {} {}", row.strategy, c.logic ? "logic" : dtype_name(row.dtype), level_name(c.level))];
    entry = std::max(entry, figure / c.limit);
  }
}

void note(FalseAlarms& result, const Row& row, int64_t seed) {
  const std::string text = fmt::format("seed {} {}[{}] {} {}: {}", seed, row.strategy, row.mesh.text(), dtype_name(row.dtype),
                                       row.family, row.reason.value_or(""));
  if (row.status == Status::failed) {
    result.not_run.push_back(text);
    return;
  }
  ++result.rows;
  note_nearest(result, row);
  if (row.status != Status::pass) result.alarms.push_back(text);
}

}  // namespace

FalseAlarms run_right_code(const std::string& model, int64_t seeds, const std::string& attention,
                           const std::function<void(const std::string&)>& progress, int64_t first_seed) {
  FalseAlarms result;
  for (int64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    progress(fmt::format("right code, seed {} of {}", seed, first_seed + seeds));
    const Subject subject = load_subject(model, static_cast<uint64_t>(seed));
    for (const Row& row : verify(subject, right_case(seed, attention))) note(result, row, seed);
    ++result.seeds;
  }
  return result;
}

}  // namespace shardproof
