#include "harness/memory_probe.hpp"

#include "comm/local.hpp"
#include "core/error.hpp"
#include "core/tensor.hpp"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace shardproof {
namespace {

TEST(MemoryProbe, CountsLiveAndPeak) {
  const MemoryProbe probe;
  {
    const Tensor a = at::empty({1000});  // 4000 bytes
    EXPECT_EQ(probe.live(-1), 4000);
    { const Tensor b = at::empty({500}, at::kDouble); }
    EXPECT_EQ(probe.live(-1), 4000);
    EXPECT_EQ(probe.peak(-1), 8000);
    const Tensor view = a.narrow(0, 10, 20), empty = at::empty({0});
    EXPECT_EQ(probe.live(), 4000);
  }
  EXPECT_EQ(probe.live(), 0);
  EXPECT_EQ(probe.peak(), 8000);
}

TEST(MemoryProbe, ResetPeakStartsFromWhatIsLive) {
  MemoryProbe probe;
  const Tensor kept = at::empty({100});
  { const Tensor gone = at::empty({1000}); }
  EXPECT_EQ(probe.peak(-1), 4400);
  probe.reset_peak();
  EXPECT_EQ(probe.peak(-1), 400);
  EXPECT_EQ(probe.peak(), 400);
}

TEST(MemoryProbe, TheAllocatingOwnerIsChargedWhoeverFrees) {
  MemoryProbe probe;
  probe.set_owner(3);
  Tensor tensor = at::empty({100});
  probe.set_owner(4);
  Tensor other = at::empty({10});
  tensor = Tensor();
  EXPECT_EQ(probe.live(3), 0);
  EXPECT_EQ(probe.peak(3), 400);
  EXPECT_EQ(probe.live(4), 40);
  EXPECT_EQ(probe.live(5), 0);
  EXPECT_EQ(probe.peak(), 440);
}

TEST(MemoryProbe, OtherThreadsAllocateForTheOwnerThatRuns) {
  MemoryProbe probe;
  probe.set_owner(7);
  Tensor tensor;
  std::thread([&] { tensor = at::empty({25}); }).join();
  EXPECT_EQ(probe.live(7), 100);
}

TEST(MemoryProbe, OlderAndYoungerStoragesAreFreedAsUsual) {
  Tensor older = at::ones({1000}), younger;
  void* const raw = c10::GetCPUAllocator()->raw_allocate(64);
  void* raw_younger = nullptr;
  {
    const MemoryProbe probe;
    older = Tensor();
    c10::GetCPUAllocator()->raw_deallocate(raw);
    EXPECT_EQ(probe.live(), 0);
    younger = at::ones({1000});
    raw_younger = c10::GetCPUAllocator()->raw_allocate(64);
    EXPECT_EQ(probe.live(), 4064);
  }
  c10::GetCPUAllocator()->raw_deallocate(raw_younger);
  EXPECT_EQ(younger.sum().item<float>(), 1000);
  younger = Tensor();
  const MemoryProbe again;
  EXPECT_EQ(again.live(), 0);
  EXPECT_EQ(again.peak(), 0);
}

TEST(MemoryProbe, AStorageOfAnEarlierProbeDoesNotCount) {
  Tensor tensor;
  std::optional<MemoryProbe> probe;
  probe.emplace();
  tensor = at::ones({1000});
  probe.reset();
  probe.emplace();
  tensor = Tensor();
  EXPECT_EQ(probe->live(), 0);
}

TEST(MemoryProbe, OnlyOneAtATime) {
  const MemoryProbe probe;
  EXPECT_THROW(MemoryProbe{}, Error);
  const Tensor tensor = at::empty({10});
  EXPECT_EQ(probe.live(), 40);  // the refused one changed nothing
}

TEST(MemoryProbe, CountsEachVirtualRank) {
  MemoryProbe probe;
  LocalOptions options;
  options.on_switch = [&](int rank) { probe.set_owner(rank); };
  run_local(4, [&](Communicator& world) {
    Tensor own = at::ones({1000 * (world.rank() + 1)});
    own.resize_({1000});
    world.all_reduce(own);  // in place: nothing is allocated
    EXPECT_EQ(probe.peak(world.rank()), 4000 * (world.rank() + 1));
    const Tensor all = world.all_gather(own);
    EXPECT_EQ(probe.live(world.rank()), 4000 * (world.rank() + 1) + 16000);
    world.barrier();
  }, options);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(probe.live(rank), 0);
    EXPECT_EQ(probe.peak(rank), 4000 * (rank + 1) + 16000);
  }
  EXPECT_EQ(probe.peak(-1), 0);
}

}  // namespace
}  // namespace shardproof
