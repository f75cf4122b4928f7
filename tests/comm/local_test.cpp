#include "comm/local.hpp"

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/comm/conformance.hpp"

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace shardproof::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Body = std::function<void(Communicator&)>;

/// The Error that a run ends with; the run must end fast.
Error failure_of(int ranks, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  try {
    run_local(ranks, body);
  } catch (const Error& error) {
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    return error;
  }
  ADD_FAILURE() << "the run succeeded";
  return Error(Fault::input, "test", "no error");
}

void expect_failure(int ranks, Fault fault, const std::string& message, const Body& body) {
  const Error error = failure_of(ranks, body);
  EXPECT_EQ(error.what(), message);
  EXPECT_EQ(error.fault(), fault);
}

void expect_mismatch(const std::string& calls, const Body& body) {
  expect_failure(2, Fault::runtime, "[comm] mismatched collectives in group world: " + calls, body);
}

TEST(LocalMismatch, ShapesOfAllGather) {  // D-14 a, pytorch#174844
  bool used = false;
  expect_mismatch("rank 0: all_gather #1 fp32 [3, 4]; rank 1: all_gather #1 fp32 []", [&](Communicator& world) {
    world.barrier();
    world.all_gather(world.rank() == 0 ? at::ones({3, 4}) : at::ones({}));
    used = true;
  });
  EXPECT_FALSE(used);
}

TEST(LocalMismatch, NoDataIsMoved) {  // D-14 a
  Tensor kept[2] = {at::full({4}, 1.0f), at::full({6}, 2.0f)};
  expect_mismatch("rank 0: all_reduce #0 sum fp32 [4]; rank 1: all_reduce #0 sum fp32 [6]",
                  [&](Communicator& world) { world.all_reduce(kept[world.rank()]); });
  EXPECT_TRUE(same(kept[0], at::full({4}, 1.0f)));
  EXPECT_TRUE(same(kept[1], at::full({6}, 2.0f)));
}

TEST(LocalMismatch, OperationDtypeReductionRoot) {  // D-14 b
  Tensor t = at::ones({4}), d = at::ones({4}, at::kDouble);
  expect_mismatch("rank 0: all_reduce #0 sum fp32 [4]; rank 1: barrier #0", [&](Communicator& world) {
    if (world.rank() == 0) world.all_reduce(t);
    world.barrier();
  });
  expect_mismatch("rank 0: all_reduce #0 sum fp32 [4]; rank 1: all_reduce #0 sum fp64 [4]",
                  [&](Communicator& world) { world.all_reduce(world.rank() == 0 ? t : d); });
  expect_mismatch("rank 0: all_reduce #0 max fp32 [4]; rank 1: all_reduce #0 min fp32 [4]",
                  [&](Communicator& world) { world.all_reduce(t, world.rank() == 0 ? Reduction::max : Reduction::min); });
  expect_mismatch("rank 0: broadcast #0 fp32 [4] root 0; rank 1: broadcast #0 fp32 [4] root 1",
                  [&](Communicator& world) { world.broadcast(t, world.rank()); });
  // The same number of elements is not the same shape.
  expect_mismatch("rank 0: all_to_all #0 fp32 [2, 6]; rank 1: all_to_all #0 fp32 [2, 2, 3]",
                  [&](Communicator& world) { world.all_to_all(world.rank() == 0 ? at::ones({2, 6}) : at::ones({2, 2, 3})); });
}

TEST(LocalMismatch, CountsAndPartners) {
  expect_mismatch("rank 0: all_to_all_v #0 fp32 [3] send [1, 2] recv [1, 1]; rank 1: all_to_all_v #0 fp32 [2] send [1, 1] recv [1, 1]",
                  [](Communicator& world) {
                    const std::vector<int64_t> ones{1, 1}, send{1, world.rank() == 0 ? 2 : 1};
                    world.all_to_all_v(at::ones({send[0] + send[1]}), send, ones);
                  });
  expect_mismatch("rank 0: all_gather_v #0 fp32 [2] sizes [2, 1]; rank 1: all_gather_v #0 fp32 [2] sizes [2, 2]",
                  [](Communicator& world) { world.all_gather_v(at::ones({2}), {2, world.rank() + 1}); });
  expect_mismatch("rank 0: all_gather_v #0 fp32 [1, 3] sizes [1, 1]; rank 1: all_gather_v #0 fp32 [1, 4] sizes [1, 1]",
                  [](Communicator& world) { world.all_gather_v(at::ones({1, 3 + world.rank()}), {1, 1}); });
  expect_mismatch("rank 0: send_recv #0 fp32 [2] to 1 from 1; rank 1: send_recv #0 fp32 [2] to 1 from 1",
                  [](Communicator& world) { world.send_recv(at::ones({2}), 1, 1); });
}

TEST(LocalMismatch, SubGroupNamesWorldRanks) {
  expect_failure(4, Fault::runtime,
                 "[comm] mismatched collectives in group ulysses: rank 2: all_reduce #1 sum bf16 [2]; rank 3: all_reduce #1 sum bf16 [3]",
                 [](Communicator& world) {
                   const auto group = world.split(world.rank() / 2, 0, "ulysses");
                   group->barrier();
                   if (world.rank() < 2) return;
                   Tensor t = at::ones({world.rank()}, at::kBFloat16);
                   group->all_reduce(t);
                 });
  expect_failure(2, Fault::runtime,
                 "[comm] mismatched collectives in group world: rank 0: split #0 color 0 label ring; rank 1: split #0 color 0 label tp",
                 [](Communicator& world) { world.split(0, 0, world.rank() == 0 ? "ring" : "tp"); });
}

TEST(LocalDeadlock, RanksInDifferentGroups) {
  expect_failure(3, Fault::runtime,
                 "[comm] deadlock, no rank can go on: rank 0: all_reduce #0 sum fp32 [2] in group pair (ranks 0, 1); "
                 "rank 1: barrier #1 in group world (ranks 0, 1, 2); rank 2: barrier #1 in group world (ranks 0, 1, 2)",
                 [](Communicator& world) {
                   const auto pair = world.split(world.rank() / 2, 0, "pair");
                   Tensor t = at::ones({2});
                   if (world.rank() == 0) pair->all_reduce(t);
                   world.barrier();
                 });
}

TEST(LocalDeadlock, ARankHasEnded) {
  expect_failure(2, Fault::runtime, "[comm] deadlock, no rank can go on: rank 0: exchange #0 in group world (ranks 0, 1); rank 1: ended",
                 [](Communicator& world) {
                   if (world.rank() == 0) world.exchange({1});
                 });
}

TEST(LocalThrow, OwnMessageFirstThenPositions) {  // D-14 c
  bool success = false;
  expect_failure(3, Fault::missing,
                 "[ulysses] 24 heads are too many (thrown by rank 1; rank 0: all_gather #0 fp32 [2] in group world (ranks 0, 1, 2); "
                 "rank 2: not started)",
                 [&](Communicator& world) {
                   if (world.rank() == 1) fail_missing("ulysses", "{} heads are too many", 24);
                   world.all_gather(at::ones({2}));
                   success = true;
                 });
  EXPECT_FALSE(success);
}

TEST(LocalThrow, KeepsTheFaultAndTakesAnyException) {
  expect_failure(1, Fault::input, "[x] bad (thrown by rank 0; no other rank)", [](Communicator&) { fail_input("x", "bad"); });
  expect_failure(2, Fault::runtime, "[rank 1] boom (thrown by rank 1; rank 0: ended)", [](Communicator& world) {
    if (world.rank() == 1) throw std::runtime_error("boom");
  });
  expect_failure(2, Fault::runtime, "[rank 1] an exception of unknown type (thrown by rank 1; rank 0: between collectives)",
                 [](Communicator& world) {
                   world.barrier();  // the last to arrive goes on first
                   throw 3;
                 });
}

TEST(LocalThrow, AtenErrorsComeWithoutTheirBacktrace) {
  const Error error = failure_of(2, [](Communicator&) { at::ones({2}).view({3}); });
  EXPECT_THAT(error.what(), StartsWith("[rank 0] shape '[3]' is invalid for input of size 2 (thrown by rank 0; rank 1: not started)"));
}

struct Counted {
  explicit Counted(int& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  int& count_;
};

TEST(LocalThrow, UnwindsEveryStack) {
  int alive = 0, most = 0, caught = 0;
  expect_failure(4, Fault::input, "[x] stop (thrown by rank 3; rank 0: barrier #0 in group world (ranks 0, 1, 2, 3); rank 1: barrier #0 in "
                 "group world (ranks 0, 1, 2, 3); rank 2: barrier #0 in group world (ranks 0, 1, 2, 3))",
                 [&](Communicator& world) {
                   const Counted counted(alive);
                   most = std::max(most, alive);
                   if (world.rank() == 3) fail_input("x", "stop");
                   try {
                     world.barrier();
                   } catch (const std::exception&) {
                     ++caught;  // the end of a run is no std::exception
                   }
                 });
  EXPECT_EQ(most, 4);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(caught, 0);
}

TEST(LocalThrow, ABodyThatCatchesEverythingStillEnds) {
  int swallowed = 0, more = 0;
  const Error error = failure_of(2, [&](Communicator& world) {
    if (world.rank() == 1) fail_runtime("x", "stop");
    for (int i = 0; i < 3; ++i) {
      try {
        world.barrier();
        ++more;
      } catch (...) {
        ++swallowed;
      }
    }
  });
  EXPECT_THAT(error.what(), StartsWith("[x] stop"));
  EXPECT_EQ(swallowed, 3);
  EXPECT_EQ(more, 0);
}

TEST(LocalMismatch, ABodyThatCatchesEverythingStillEnds) {
  int swallowed = 0;
  const Error error = failure_of(2, [&](Communicator& world) {
    for (int i = 0; i < 3; ++i) {
      try {
        world.broadcast(*std::make_unique<Tensor>(at::ones({2})), world.rank());
      } catch (...) {
        ++swallowed;
      }
    }
  });
  EXPECT_THAT(error.what(), StartsWith("[comm] mismatched collectives in group world: rank 0: broadcast #0"));
  EXPECT_EQ(swallowed, 6);
}

TEST(LocalThrow, EachRankHasItsOwnCaughtException) {
  std::vector<std::string> rethrown(3);
  run_local(3, [&](Communicator& world) {
    try {
      try {
        throw std::runtime_error("of rank " + std::to_string(world.rank()));
      } catch (const std::exception&) {
        world.barrier();
        throw;
      }
    } catch (const std::exception& error) {
      world.barrier();
      rethrown[world.rank()] = error.what();
    }
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
  EXPECT_THAT(rethrown, ElementsAre("of rank 0", "of rank 1", "of rank 2"));
}

TEST(Local, RunsAgainAfterAFailure) {
  failure_of(2, [](Communicator& world) { fail_input("x", "rank {}", world.rank()); });
  int ended = 0;
  run_local(2, [&](Communicator& world) {
    world.barrier();
    ++ended;
  });
  EXPECT_EQ(ended, 2);
}

TEST(Local, RefusesNoRanksAndNesting) {
  EXPECT_THAT(failure_of(0, [](Communicator&) {}).what(), HasSubstr("at least 1"));
  const Error nested = failure_of(2, [](Communicator&) { run_local(2, [](Communicator&) {}); });
  EXPECT_THAT(nested.what(), StartsWith("[comm] run_local inside a rank of another run_local"));
  EXPECT_EQ(nested.fault(), Fault::input);
}

TEST(Local, ACommunicatorBelongsToItsRankAndRun) {
  Communicator* first = nullptr;
  EXPECT_THAT(failure_of(2,
                         [&](Communicator& world) {
                           if (world.rank() == 0) first = &world;
                           if (world.rank() == 0) world.barrier();
                           first->barrier();
                         })
                  .what(),
              StartsWith("[comm] barrier of rank 0 in group world called by rank 1"));
  std::unique_ptr<Communicator> kept;
  run_local(1, [&](Communicator& world) { kept = world.split(0, 0, "kept"); });
  EXPECT_THROW(kept->barrier(), Error);
}

TEST(Local, LowPrecisionSumsRoundAtEveryAddition) {
  run_local(3, [](Communicator& world) {
    // bf16 keeps 8 bits: 256 + 1 rounds to 256, twice; the exact sum is 258.
    Tensor bf16 = at::full({2}, world.rank() == 0 ? 256 : 1, at::kBFloat16);
    Tensor fp32 = bf16.to(at::kFloat);
    world.all_reduce(bf16);
    world.all_reduce(fp32);
    EXPECT_TRUE(same(bf16, at::full({2}, 256, at::kBFloat16)));
    EXPECT_TRUE(same(fp32, at::full({2}, 258, at::kFloat)));
    // In rank order: (1 + 1) + 256 would be 258.
    Tensor last = at::full({3, 1}, world.rank() == 2 ? 256 : 1, at::kBFloat16);
    EXPECT_TRUE(same(world.reduce_scatter(last), at::full({1}, 258, at::kBFloat16)));
  });
}

TEST(Local, SumsAreInRankOrderAndBitEqualFromRunToRun) {
  const auto values = [](int rank) { return seeded_normal({3, 70001}, 7, "rank " + std::to_string(rank)).to(at::kFloat); };
  const Tensor expected = values(0) + values(1) + values(2);
  for (int repeat = 0; repeat < 2; ++repeat)
    run_local(3, [&](Communicator& world) {
      Tensor sum = values(world.rank());
      EXPECT_TRUE(same(world.reduce_scatter(sum), expected[world.rank()]));
      world.all_reduce(sum);
      EXPECT_TRUE(same(sum, expected));
    });
}

TEST(Local, InferenceModeIsOnAndOffAgain) {
  ASSERT_FALSE(c10::InferenceMode::is_enabled());
  run_local(2, [](Communicator& world) {
    EXPECT_TRUE(c10::InferenceMode::is_enabled());
    world.barrier();
    EXPECT_TRUE(c10::InferenceMode::is_enabled());
  });
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
}

TEST(Local, TellsWhoRuns) {
  std::vector<int> seen;
  LocalOptions options;
  options.on_switch = [&](int rank) { seen.push_back(rank); };
  run_local(2, [](Communicator& world) { world.barrier(); }, options);
  EXPECT_THAT(seen, ElementsAre(0, -1, 1, -1, 0, -1));  // rank 1 arrives last and goes on at once
}

void work(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
  }
}

/// Seconds the whole run took on this machine. All of it is some rank's own work, so whatever a clock leaves
/// out, compared with this, are the other ranks: true under any load.
double elapsed(int ranks, const Body& body, LocalReport& report) {
  const auto start = std::chrono::steady_clock::now();
  report = run_local(ranks, body);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(LocalClock, TheSlowestOfEachSectionCounts) {
  // Section 1: rank 0 is slow (40 ms); section 2: rank 1 (60 ms). Two devices take 100 ms, one takes 120.
  LocalReport report;
  const double total = elapsed(
      2,
      [](Communicator& world) {
        work(world.rank() == 0 ? 0.04 : 0.01);
        world.barrier();
        work(world.rank() == 0 ? 0.01 : 0.06);
      },
      report);
  EXPECT_GE(report.rank_clock_s[0], 0.05);
  EXPECT_GE(report.rank_clock_s[1], 0.10);
  EXPECT_LE(report.critical_path_s, total - 0.02);
  EXPECT_EQ(report.critical_path_s, std::max(report.rank_clock_s[0], report.rank_clock_s[1]));
}

TEST(LocalClock, GroupsKeepTheirOwnTime) {
  LocalReport report;
  const double total = elapsed(
      4,
      [](Communicator& world) {
        const auto pair = world.split(world.rank() / 2, 0, "pair");
        if (world.rank() == 3) work(0.05);
        pair->barrier();
      },
      report);
  EXPECT_LE(report.rank_clock_s[0], total - 0.05);
  EXPECT_LE(report.rank_clock_s[1], total - 0.05);
  EXPECT_GE(report.rank_clock_s[2], 0.05);
  EXPECT_GE(report.rank_clock_s[3], 0.05);
}

TEST(LocalClock, CanBeReadByItsRank) {
  double before[2], after[2];
  LocalReport report = run_local(2, [&](Communicator& world) {
    before[world.rank()] = local_clock_s();
    if (world.rank() == 1) work(0.05);
    world.barrier();
    after[world.rank()] = local_clock_s();
  });
  EXPECT_GE(after[0] - before[0], 0.05);  // rank 0 waited for rank 1
  for (const int rank : {0, 1}) EXPECT_LE(after[rank], report.rank_clock_s[rank]);
  EXPECT_THROW(local_clock_s(), Error);
}

TEST(LocalClock, MovingDataCostsNothing) {
  const auto start = std::chrono::steady_clock::now();
  const LocalReport report = run_local(2, [](Communicator& world) {
    Tensor tensor = at::empty({1 << 20});
    for (int i = 0; i < 50; ++i) world.all_reduce(tensor, Reduction::max);
  });
  EXPECT_LT(report.critical_path_s, 0.5 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

TEST(Local, DeepStacksAndParallelAten) {
  const std::function<double(Communicator&, int)> deep = [&](Communicator& world, int depth) -> double {
    volatile char frame[4096] = {};
    if (depth > 0) return deep(world, depth - 1) + frame[depth % 4096];
    Tensor big = at::ones({300, 300});
    for (int i = 0; i < 3; ++i) {
      big = at::matmul(big, big) / 300;
      world.all_reduce(big, Reduction::max);
    }
    return big.sum().item<double>();
  };
  run_local(4, [&](Communicator& world) { EXPECT_EQ(deep(world, 500), 90000); });
}

TEST(Local, ThreadsRunTheirOwnWorlds) {
  std::vector<int64_t> sums(2);
  const auto run = [&](int index) {
    run_local(3, [&](Communicator& world) {
      int64_t sum = 0;
      for (const auto& values : world.exchange({world.rank() + 10 * index})) sum += values[0];
      sums[index] = sum;
    });
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_THAT(sums, ElementsAre(3, 33));
}

}  // namespace
}  // namespace shardproof::testing
