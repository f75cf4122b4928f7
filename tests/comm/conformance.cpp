#include "tests/comm/conformance.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

#include <algorithm>
#include <numeric>

namespace shardproof::testing {
namespace {

const std::vector<at::ScalarType> dtypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong};

/// Values whose partial sums over 8 ranks are exact even in bf16: below 256.
Tensor small(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  return (at::arange(c10::multiply_integers(shape), at::kDouble).remainder(4) + 4 * rank).reshape(shape).to(dtype);
}

Tensor small_sum(int ranks, at::IntArrayRef shape, at::ScalarType dtype) {
  Tensor sum = at::zeros(shape, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) sum += small(rank, shape, at::kDouble);
  return sum.to(dtype);
}

int64_t storage_bytes(const Tensor& tensor) { return static_cast<int64_t>(tensor.storage().nbytes()); }

std::vector<int64_t> uneven(int ranks) {  // 1, 2, 0, 1, 2, 0, …
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back((rank + 1) % 3);
  return sizes;
}

TEST_P(Conformance, AllReduceSumsInEveryDtype) {
  run([&](Communicator& world) {
    for (const auto dtype : dtypes) {
      for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{4}, {2, 3, 5}, {}, {0, 3}}) {
        Tensor tensor = small(world.rank(), shape, dtype);
        world.all_reduce(tensor);
        EXPECT_TRUE(same(tensor, small_sum(ranks(), shape, dtype)));
      }
    }
  });
}

TEST_P(Conformance, AllReduceFindsLargestAndSmallest) {
  run([&](Communicator& world) {
    // Element i is largest on another rank than element i + 1.
    const Tensor index = at::arange(12, at::kDouble);
    for (const auto dtype : dtypes) {
      Tensor largest = ((index + world.rank()).remainder(ranks()) * 16 + index).to(dtype);
      Tensor smallest = largest.clone();
      world.all_reduce(largest, Reduction::max);
      world.all_reduce(smallest, Reduction::min);
      EXPECT_TRUE(same(largest, ((ranks() - 1) * 16 + index).to(dtype)));
      EXPECT_TRUE(same(smallest, index.to(dtype)));
    }
  });
}

TEST_P(Conformance, AllGatherStacksInRankOrder) {
  run([&](Communicator& world) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kLong, at::kBool}) {
      for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{2, 3}, {}, {0, 3}, {1}}) {
        std::vector<Tensor> expected;
        for (int rank = 0; rank < ranks(); ++rank) expected.push_back(distinct(rank, shape, dtype));
        EXPECT_TRUE(same(world.all_gather(distinct(world.rank(), shape, dtype)), at::stack(expected)));
      }
    }
  });
}

TEST_P(Conformance, AllGatherVTakesUnevenAndEmptyShares) {
  run([&](Communicator& world) {
    const std::vector<int64_t> sizes = uneven(ranks());
    const auto gathered = world.all_gather_v(distinct(world.rank(), {sizes[world.rank()], 2}), sizes);
    ASSERT_EQ(std::ssize(gathered), ranks());
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(same(gathered[rank], distinct(rank, {sizes[rank], 2})));
      EXPECT_EQ(storage_bytes(gathered[rank]), sizes[rank] * 2 * 4);  // D-15: a share, not a view of the whole
    }
  });
}

TEST_P(Conformance, ReduceScatterGivesEachRankItsRow) {
  run([&](Communicator& world) {
    for (const auto dtype : dtypes) {
      const std::vector<int64_t> shape{ranks(), 3, 2};
      const Tensor sum = small_sum(ranks(), shape, dtype);
      EXPECT_TRUE(same(world.reduce_scatter(small(world.rank(), shape, dtype)), sum[world.rank()].clone()));
    }
    EXPECT_TRUE(same(world.reduce_scatter(small(world.rank(), {ranks()}, at::kFloat)), small_sum(ranks(), {ranks()}, at::kFloat)[world.rank()]));
  });
}

TEST_P(Conformance, AllToAllTransposesRanksAndRows) {
  run([&](Communicator& world) {
    for (const auto dtype : dtypes) {
      if (dtype == at::kBFloat16) continue;  // distinct() needs more bits
      const std::vector<int64_t> shape{ranks(), 2, 3};
      std::vector<Tensor> expected;
      for (int rank = 0; rank < ranks(); ++rank) expected.push_back(distinct(rank, shape, dtype)[world.rank()]);
      EXPECT_TRUE(same(world.all_to_all(distinct(world.rank(), shape, dtype)), at::stack(expected)));
    }
  });
}

TEST_P(Conformance, AllToAllVTakesUnevenAndEmptyParts) {
  const auto count = [](int from, int to) { return (from + 2 * to) % 3; };
  run([&](Communicator& world) {
    std::vector<int64_t> send, recv;
    std::vector<Tensor> expected;
    for (int peer = 0; peer < ranks(); ++peer) {
      send.push_back(count(world.rank(), peer));
      recv.push_back(count(peer, world.rank()));
      int64_t before = 0;  // what `peer` sends to the ranks ahead of this one
      for (int to = 0; to < world.rank(); ++to) before += count(peer, to);
      expected.push_back((at::arange(before, before + recv.back(), at::kDouble) + 100 * peer).to(at::kFloat));
    }
    const Tensor flat = distinct(world.rank(), {std::accumulate(send.begin(), send.end(), int64_t{0})});
    EXPECT_TRUE(same(world.all_to_all_v(flat, send, recv), at::cat(expected)));
  });
}

TEST_P(Conformance, SendRecvTurnsTheRingEitherWay) {
  run([&](Communicator& world) {
    const int next = (world.rank() + 1) % ranks(), previous = (world.rank() + ranks() - 1) % ranks();
    const Tensor own = distinct(world.rank(), {2, 3});
    EXPECT_TRUE(same(world.send_recv(own, next, previous), distinct(previous, {2, 3})));
    EXPECT_TRUE(same(world.send_recv(own, previous, next), distinct(next, {2, 3})));
    EXPECT_TRUE(same(world.send_recv(own, world.rank(), world.rank()), own));
    EXPECT_TRUE(same(own, distinct(world.rank(), {2, 3})));
  });
}

TEST_P(Conformance, BroadcastFromEveryRoot) {
  run([&](Communicator& world) {
    for (int root = 0; root < ranks(); ++root) {
      Tensor tensor = distinct(world.rank(), {2, 3});
      world.broadcast(tensor, root);
      EXPECT_TRUE(same(tensor, distinct(root, {2, 3})));
    }
  });
}

TEST_P(Conformance, ExchangeKeepsLengthsAndOrder) {
  run([&](Communicator& world) {
    std::vector<int64_t> own(world.rank());  // rank 0 has nothing to say
    std::iota(own.begin(), own.end(), 10 * world.rank());
    const auto all = world.exchange(own);
    ASSERT_EQ(std::ssize(all), ranks());
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<int64_t> expected(rank);
      std::iota(expected.begin(), expected.end(), 10 * rank);
      EXPECT_EQ(all[rank], expected);
    }
    world.barrier();
  });
}

/// Strided inputs of every operation: D-09's view (B == 2 rows of 6, columns 2 on) and a transposed one.
class Strided {
 public:
  explicit Strided(int rank) : base_((at::arange(12, at::kFloat) + 100 * rank).reshape({2, 6})) {}
  Tensor slice() const { return base_.narrow(1, 2, 4); }
  Tensor transposed() const { return base_.t(); }
  Tensor margin() const { return base_.narrow(1, 0, 2); }

 private:
  Tensor base_;
};

TEST_P(Conformance, StridedInPlaceResultsAreCopiedBack) {  // D-09, pytorch#192920
  run([&](Communicator& world) {
    Tensor sum = at::zeros({2, 4}), t_sum = at::zeros({6, 2});
    for (int rank = 0; rank < ranks(); ++rank) {
      sum += Strided(rank).slice();
      t_sum += Strided(rank).transposed();
    }
    const Strided own(world.rank()), other(world.rank()), third(world.rank());
    Tensor view = own.slice(), transposed = other.transposed(), received = third.slice();
    world.all_reduce(view);
    EXPECT_TRUE(same(view, sum));
    if (ranks() == 2) {
      EXPECT_TRUE(same(view.flatten(), at::tensor({104, 106, 108, 110, 116, 118, 120, 122}, at::kFloat)));
    }
    EXPECT_TRUE(same(own.margin(), Strided(world.rank()).margin()));  // nothing beside the view was written
    world.all_reduce(transposed);
    EXPECT_TRUE(same(transposed, t_sum));
    world.broadcast(received, ranks() - 1);
    EXPECT_TRUE(same(received, Strided(ranks() - 1).slice()));
  });
}

TEST_P(Conformance, StridedInputsOfGatherAndRing) {  // D-09
  run([&](Communicator& world) {
    std::vector<Tensor> slices;
    for (int rank = 0; rank < ranks(); ++rank) slices.push_back(Strided(rank).slice());
    const Tensor own = Strided(world.rank()).slice();
    EXPECT_TRUE(same(world.all_gather(own), at::stack(slices)));
    const auto gathered = world.all_gather_v(own, std::vector<int64_t>(ranks(), 2));
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_TRUE(same(gathered[rank], slices[rank]));
    const int next = (world.rank() + 1) % ranks(), previous = (world.rank() + ranks() - 1) % ranks();
    EXPECT_TRUE(same(world.send_recv(own, next, previous), slices[previous]));
  });
}

TEST_P(Conformance, StridedInputsOfAllToAllAndReduceScatter) {  // D-09; dim 0 is the group, so rows of [N, 2, 3]
  const auto strided = [&](int rank) { return distinct(rank, {3, 2, ranks()}).permute({2, 1, 0}); };
  run([&](Communicator& world) {
    const Tensor own = strided(world.rank());
    std::vector<Tensor> rows, strips;
    for (int rank = 0; rank < ranks(); ++rank) rows.push_back(strided(rank)[world.rank()]);
    EXPECT_TRUE(same(world.all_to_all(own), at::stack(rows)));
    EXPECT_TRUE(same(world.reduce_scatter(own), at::stack(rows).sum(0)));
    const auto every_second = [&](int rank) { return distinct(rank, {2 * ranks()}).slice(0, 1, c10::nullopt, 2); };
    for (int rank = 0; rank < ranks(); ++rank) strips.push_back(every_second(rank).narrow(0, world.rank(), 1));
    const std::vector<int64_t> ones(ranks(), 1);
    EXPECT_TRUE(same(world.all_to_all_v(every_second(world.rank()), ones, ones), at::cat(strips)));
  });
}

TEST_P(Conformance, ResultsShareNoMemory) {
  run([&](Communicator& world) {
    const Tensor own = distinct(world.rank(), {ranks(), 2});
    std::vector<Tensor> results{world.all_gather(own), world.all_to_all(own), world.reduce_scatter(own),
                                world.send_recv(own, world.rank(), world.rank()),
                                world.all_to_all_v(own.flatten(), std::vector<int64_t>(ranks(), 2), std::vector<int64_t>(ranks(), 2))};
    for (const Tensor& part : world.all_gather_v(own, std::vector<int64_t>(ranks(), ranks()))) results.push_back(part);
    std::vector<Tensor> copies;
    for (const Tensor& result : results) copies.push_back(result.clone());
    world.barrier();
    if (world.rank() == 0)
      for (Tensor& result : results) result.fill_(-1);
    world.barrier();
    EXPECT_TRUE(same(own, distinct(world.rank(), {ranks(), 2})));
    for (size_t i = 0; i < results.size() && world.rank() != 0; ++i) EXPECT_TRUE(same(results[i], copies[i]));
  });
}

TEST_P(Conformance, SplitGroupsByColorAndOrdersByKey) {
  run([&](Communicator& world) {
    const auto half = world.split(world.rank() % 2, -world.rank(), "half");  // descending ranks
    std::vector<float> expected;
    for (int rank = ranks() - 1; rank >= 0; --rank)
      if (rank % 2 == world.rank() % 2) expected.push_back(static_cast<float>(rank));
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(half->name(), "half");
    EXPECT_EQ(half->size(), std::ssize(expected));
    EXPECT_EQ(expected.at(half->rank()), world.rank());
    EXPECT_TRUE(same(half->all_gather(at::scalar_tensor(world.rank(), at::kFloat)), at::tensor(expected)));
    const auto odd = world.split(world.rank() % 2 == 1 ? 0 : -1, 0, "odd");
    EXPECT_EQ(odd != nullptr, world.rank() % 2 == 1);
    if (odd) {
      EXPECT_EQ(odd->rank(), world.rank() / 2);  // equal keys: by rank
    }
    Tensor one = at::ones({1});
    half->split(0, half->rank(), "nested")->all_reduce(one);
    EXPECT_EQ(one.item<float>(), half->size());
  });
}

TEST_P(Conformance, EveryRankHoldsTheSameBits) {
  run([&](Communicator& world) {
    const auto values = [](int rank) { return seeded_normal({1000}, 7, "rank " + std::to_string(rank)).to(at::kFloat); };
    Tensor sum = values(0);
    for (int rank = 1; rank < ranks(); ++rank) sum = sum + values(rank);
    Tensor tensor = values(world.rank());
    world.all_reduce(tensor);
    if (ranks() <= 2) {
      EXPECT_TRUE(same(tensor, sum));
    }
    EXPECT_TRUE(at::allclose(tensor, sum, 1e-5, 1e-5));
    const Tensor all = world.all_gather(tensor);
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_TRUE(same(all[rank], tensor));
  });
}

TEST_P(Conformance, WrongArgumentsAreRefusedByName) {
  const auto refused = [](const std::string& words, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::runtime);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  run([&](Communicator& world) {
    const Tensor odd = at::ones({ranks() + 1, 2});
    Tensor undefined, expanded = at::ones({1}).expand({4}), flags = at::ones({2}, at::kBool);
    const std::vector<int64_t> ones(ranks(), 1), minus(ranks(), -1), many(ranks() + 1, 1);
    refused("all_reduce in group world", [&] { world.all_reduce(undefined); });
    refused("share memory", [&] { world.all_reduce(expanded); });
    refused("share memory", [&] { world.broadcast(expanded, 0); });
    refused("bool", [&] { world.all_reduce(flags); });
    refused("must be the group's size", [&] { world.all_to_all(odd); });
    refused("must be the group's size", [&] { world.reduce_scatter(odd); });
    refused("must be the group's size", [&] { world.reduce_scatter(at::ones({})); });
    refused("this rank's size 1", [&] { world.all_gather_v(odd, ones); });
    refused("dim0_sizes", [&] { world.all_gather_v(odd, many); });
    refused("send_counts", [&] { world.all_to_all_v(at::ones({ranks()}), minus, ones); });
    refused("recv_counts", [&] { world.all_to_all_v(at::ones({ranks()}), ones, many); });
    refused("1-D", [&] { world.all_to_all_v(at::ones({ranks(), 1}), ones, ones); });
    refused("1-D", [&] { world.all_to_all_v(at::ones({ranks() + 1}), ones, ones); });
    refused("to -1", [&] { world.send_recv(odd, -1, 0); });
    refused("from", [&] { world.send_recv(odd, 0, ranks()); });
    refused("root", [&] { world.broadcast(undefined, ranks()); });
    world.barrier();  // a refused call does not disturb the group
  });
}

TEST_P(Conformance, AThousandCollectives) {
  run([&](Communicator& world) {
    Tensor tensor = at::ones({4}, at::kLong);
    for (int i = 0; i < 500; ++i) {
      world.all_reduce(tensor, Reduction::max);
      tensor += 1;
      world.barrier();
    }
    EXPECT_TRUE(same(tensor, at::full({4}, 501, at::kLong)));
  });
}

}  // namespace
}  // namespace shardproof::testing
