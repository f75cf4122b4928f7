// Collectives of virtual ranks at 64 MiB a rank, and memcpy in the same run to judge them by.
// bytes_per_second counts bytes written to the ranks' results, for a collective and for memcpy alike.
#include "comm/local.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>

namespace shardproof {
namespace {

constexpr int64_t bytes = int64_t{64} << 20;
constexpr int64_t elements = bytes / 4;

/// The copy that nothing beats: into memory that has been touched before.
void memcpy_warm(benchmark::State& state) {
  const Tensor from = at::ones({elements});
  Tensor to = at::zeros({elements});
  for (auto _ : state) {
    std::memcpy(to.data_ptr(), from.data_ptr(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

/// What a collective that returns new tensors is compared with: the same copy into a new tensor.
void memcpy_new(benchmark::State& state) {
  const Tensor from = at::ones({elements});
  for (auto _ : state) {
    Tensor to = at::empty({elements});
    std::memcpy(to.data_ptr(), from.data_ptr(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

/// Times `collective` on `ranks` ranks; `written` bytes land in each rank's result.
template <class Collective>
void on_ranks(benchmark::State& state, int64_t written, Collective collective) {
  const int ranks = static_cast<int>(state.range(0));
  for (auto _ : state) {
    std::chrono::steady_clock::time_point start, end;
    run_local(ranks, [&](Communicator& world) {
      Tensor own = at::ones({ranks, elements / ranks});
      world.barrier();
      if (world.rank() == ranks - 1) start = std::chrono::steady_clock::now();  // the last to arrive goes on first
      collective(world, own);
      end = std::chrono::steady_clock::now();
    });
    state.SetIterationTime(std::chrono::duration<double>(end - start).count());
  }
  state.SetBytesProcessed(state.iterations() * ranks * written);
}

void all_reduce(benchmark::State& state) {
  on_ranks(state, bytes, [](Communicator& world, Tensor& own) { world.all_reduce(own); });
}

void broadcast(benchmark::State& state) {
  const int64_t ranks = state.range(0);  // the root's copy is not written
  on_ranks(state, bytes * (ranks - 1) / ranks, [](Communicator& world, Tensor& own) { world.broadcast(own, 0); });
}

void all_gather(benchmark::State& state) {
  on_ranks(state, bytes * state.range(0), [](Communicator& world, Tensor& own) { benchmark::DoNotOptimize(world.all_gather(own)); });
}

void reduce_scatter(benchmark::State& state) {  // reads all, writes little: judged by what it reads
  on_ranks(state, bytes, [](Communicator& world, Tensor& own) { benchmark::DoNotOptimize(world.reduce_scatter(own)); });
}

void all_to_all(benchmark::State& state) {
  on_ranks(state, bytes, [](Communicator& world, Tensor& own) { benchmark::DoNotOptimize(world.all_to_all(own)); });
}

void send_recv(benchmark::State& state) {
  on_ranks(state, bytes, [](Communicator& world, Tensor& own) {
    benchmark::DoNotOptimize(world.send_recv(own, (world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size()));
  });
}

BENCHMARK(memcpy_warm)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(memcpy_new)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(all_reduce)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(broadcast)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(all_gather)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(reduce_scatter)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(all_to_all)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(send_recv)->Arg(2)->Arg(4)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardproof
