#include "comm/local.hpp"
#include "comm/mesh.hpp"
#include "comm/recording.hpp"
#include "core/error.hpp"
#include "tests/comm/conformance.hpp"

namespace shardproof::testing {
namespace {

using Operation = WireCost::Operation;

/// What each rank counts while all run `body`.
std::vector<Traffic> record(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<Traffic> traffic(ranks);
  run_local(ranks, [&](Communicator& world) {
    const auto mine = std::make_shared<Traffic>();
    RecordingCommunicator recording(world, mine);
    body(recording);
    traffic[world.rank()] = *mine;
  });
  return traffic;
}

Traffic only(const std::string& operation, int64_t messages, int64_t bytes, int64_t calls = 1) {
  return {.messages = messages, .bytes = bytes, .by_op = {{operation, {calls, messages, bytes}}}};
}

TEST(Recording, AllReduceIsARing) {
  // 12 fp32 over 4 ranks: 2·(3/4)·48 = 72 bytes in 6 messages.
  for (const Traffic& traffic : record(4, [](Communicator& c) {
         Tensor t = at::ones({3, 4});
         c.all_reduce(t);
       }))
    EXPECT_EQ(traffic, only("all_reduce", 6, 72));
}

TEST(Recording, AllReduceOfAnUnevenLength) {
  // 7 bf16 over 3 ranks: chunks 3, 2, 2. Rank 0 leaves out chunks 1, 2; rank 1: 2, 0; rank 2: 0, 1.
  const auto traffic = record(3, [](Communicator& c) {
    Tensor t = at::ones({7}, at::kBFloat16);
    c.all_reduce(t, Reduction::max);
  });
  EXPECT_EQ(traffic[0], only("all_reduce", 4, (14 - 2 - 2) * 2));
  EXPECT_EQ(traffic[1], only("all_reduce", 4, (14 - 2 - 3) * 2));
  EXPECT_EQ(traffic[2], only("all_reduce", 4, (14 - 3 - 2) * 2));
  EXPECT_EQ(traffic[0].bytes + traffic[1].bytes + traffic[2].bytes, 2 * 2 * 7 * 2);  // 2·(N-1)·n in all
}

TEST(Recording, AllReduceOfFewerElementsThanRanks) {
  // One fp32 on 4 ranks: only chunk 0 is not empty.
  const auto traffic = record(4, [](Communicator& c) {
    Tensor t = at::ones({1});
    c.all_reduce(t);
  });
  // Reduce-scatter: all but rank 3 send it. All-gather: all but rank 2.
  EXPECT_EQ(traffic[0], only("all_reduce", 2, 8));
  EXPECT_EQ(traffic[1], only("all_reduce", 2, 8));
  EXPECT_EQ(traffic[2], only("all_reduce", 1, 4));
  EXPECT_EQ(traffic[3], only("all_reduce", 1, 4));
}

TEST(Recording, GatherScatterAndAllToAll) {
  const auto traffic = record(4, [](Communicator& c) {
    c.all_gather(at::ones({5}, at::kDouble));      // 3 peers · 40
    c.reduce_scatter(at::ones({4, 6}, at::kHalf)); // 3 chunks · 12
    c.all_to_all(at::ones({4, 3, 2}));             // 3 rows · 24
  });
  for (const Traffic& mine : traffic) {
    EXPECT_EQ(mine, only("all_gather", 3, 120) + only("reduce_scatter", 3, 36) + only("all_to_all", 3, 72));
    EXPECT_EQ(mine.messages, 9);
    EXPECT_EQ(mine.bytes, 228);
  }
}

TEST(Recording, UnevenOperationsCountTheirOwnSizes) {
  const auto traffic = record(3, [](Communicator& c) {
    const std::vector<int64_t> sizes{2, 0, 5};
    c.all_gather_v(at::ones({sizes[c.rank()], 4}), sizes);
    const std::vector<int64_t> send = c.rank() == 0 ? std::vector<int64_t>{7, 0, 3} : std::vector<int64_t>{0, 0, 0};
    const std::vector<int64_t> recv{c.rank() == 0 ? 7 : c.rank() == 2 ? 3 : 0, 0, 0};
    c.all_to_all_v(at::ones({c.rank() == 0 ? 10 : 0}), send, recv);
  });
  EXPECT_EQ(traffic[0], only("all_gather_v", 2, 2 * 2 * 4 * 4) + only("all_to_all_v", 1, 12));
  EXPECT_EQ(traffic[1], only("all_gather_v", 0, 0) + only("all_to_all_v", 0, 0));
  EXPECT_EQ(traffic[2], only("all_gather_v", 2, 2 * 5 * 4 * 4) + only("all_to_all_v", 0, 0));
}

TEST(Recording, RingBroadcastExchangeBarrier) {
  const auto traffic = record(3, [](Communicator& c) {
    const Tensor t = at::ones({2, 5});
    c.send_recv(t, (c.rank() + 1) % 3, (c.rank() + 2) % 3);
    c.send_recv(t, c.rank(), c.rank());
    Tensor b = at::ones({4}, at::kLong);
    c.broadcast(b, 1);
    c.exchange(std::vector<int64_t>(c.rank(), 0));
    c.barrier();
  });
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(traffic[rank], only("send_recv", 1, 40, 2) + (rank == 1 ? only("broadcast", 2, 64) : only("broadcast", 0, 0)) +
                                 only("exchange", rank == 0 ? 0 : 2, 2 * 8 * rank));
}

TEST(Recording, GroupsOfOneSendNothing) {
  const auto traffic = record(1, [](Communicator& c) {
    Tensor t = at::ones({1, 2});
    c.all_reduce(t);
    c.all_gather(t);
    c.all_gather_v(t, {1});
    c.reduce_scatter(t);
    c.all_to_all(t);
    c.all_to_all_v(at::ones({3}), {3}, {3});
    c.send_recv(t, 0, 0);
    c.broadcast(t, 0);
    c.exchange({1, 2});
  });
  EXPECT_EQ(traffic[0], Traffic{});
}

TEST(Recording, ChildrenCountIntoTheParent) {
  const auto traffic = record(4, [](Communicator& c) {
    const Mesh mesh(parse_mesh("ring=2,ulysses=2"), c);
    mesh.axis(Axis::ulysses).all_to_all(at::ones({2, 8}));  // 32
    mesh.axis(Axis::ring).all_gather(at::ones({8}));        // 32
    mesh.axis(Axis::tp).all_gather(at::ones({8}));          // a group of one
  });
  for (const Traffic& mine : traffic) EXPECT_EQ(mine, only("all_to_all", 1, 32) + only("all_gather", 1, 32));
}

TEST(Recording, StridedInputsCountTheirElements) {
  for (const Traffic& mine : record(2, [](Communicator& c) {
         Tensor view = at::ones({2, 6}).narrow(1, 2, 4);
         c.all_reduce(view);
       }))
    EXPECT_EQ(mine, only("all_reduce", 2, 32));  // 8 elements of 4 bytes, halved and doubled
}

TEST(Recording, SemanticsFormulas) {
  // semantics.md section 3: S = 24, h = 4 heads of 8, e = 4, one layer. ulysses: q, k, v and the output;
  // ring: K and V.
  const int64_t S = 24, h = 32, e = 4;
  for (const int N : {2, 4}) {
    const auto ulysses = record(N, [&](Communicator& c) {
      for (int i = 0; i < 4; ++i) c.all_to_all(at::ones({N, S / N, h / N}));
    });
    const auto ring = record(N, [&](Communicator& c) {
      for (int i = 0; i < 2; ++i) c.all_gather(at::ones({S / N, h}));
    });
    const auto tp = record(N, [&](Communicator& c) {
      Tensor t = at::ones({S, h});
      c.all_reduce(t);
    });
    for (int rank = 0; rank < N; ++rank) {
      EXPECT_EQ(ulysses[rank].bytes, 4 * (S / N) * h * e * (N - 1) / N);
      EXPECT_EQ(ring[rank].bytes, 2 * (S / N) * h * e * (N - 1));
      EXPECT_EQ(tp[rank].bytes, 2 * (N - 1) * S * h * e / N);
    }
  }
}

TEST(WireCost, AddsAndMultiplies) {
  const WireCost layer = wire::all_to_all(64, 2, 4, 0) * 4 + wire::exchange(2, 4, 0);
  EXPECT_EQ(layer.messages, 15);
  EXPECT_EQ(layer.bytes, 4 * 96 + 48);
  EXPECT_EQ(layer.by_op.at("all_to_all"), (Operation{4, 12, 384}));
  EXPECT_EQ(layer.by_op.at("exchange"), (Operation{1, 3, 48}));
  EXPECT_EQ(layer * 0, WireCost{});
  EXPECT_EQ(layer.text(), "15 messages, 432 bytes (all_to_all 12/384 in 4 calls, exchange 3/48 in 1 calls)");
  EXPECT_EQ(WireCost{}.text(), "0 messages, 0 bytes (nothing)");
}

TEST(WireCost, FluxDevStepOfTheGuide) {
  // semantics.md: FLUX.1-dev, S = 4608, bf16, N = 4, 57 layers and 76 all-reduces: 1.210, 2.421, 3.228 GB.
  const int64_t S = 4608, h = 3072, N = 4;
  EXPECT_EQ((wire::all_to_all(S / N * h, 2, N, 0) * (4 * 57)).bytes, 1210318848);
  EXPECT_EQ((wire::all_gather(S / N * h, 2, N, 0) * (2 * 57)).bytes, 2 * 1210318848LL);
  EXPECT_NEAR(static_cast<double>((wire::all_reduce(S * h, 2, N, 0) * 76).bytes), 3.228e9, 1e6);
}

TEST(WireCost, RefusesWhatDoesNotExist) {
  EXPECT_THROW(wire::all_reduce(4, 4, 2, 2), Error);
  EXPECT_THROW(wire::all_gather(-1, 4, 2, 0), Error);
  EXPECT_THROW(wire::all_to_all(5, 4, 2, 0), Error);
  EXPECT_THROW(wire::exchange(1, 0, 0), Error);
}

}  // namespace
}  // namespace shardproof::testing
