#include "comm/local.hpp"
#include "comm/mesh.hpp"
#include "core/error.hpp"
#include "tests/comm/conformance.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

namespace shardproof::testing {
namespace {

constexpr std::array<Axis, 6> axes{Axis::dp, Axis::cfg, Axis::stage, Axis::tp, Axis::ring, Axis::ulysses};

/// The world ranks of a group, in group order, as its members see them.
std::vector<int64_t> members(Communicator& group, int world_rank) {
  std::vector<int64_t> ranks;
  for (const auto& values : group.exchange({world_rank})) ranks.push_back(values.at(0));
  return ranks;
}

void expect_axis(const Mesh& mesh, Axis axis) {
  const int rank = mesh.world().rank();
  const std::vector<int> expected = mesh.shape().group(rank, axis);
  Communicator& group = mesh.axis(axis);
  EXPECT_EQ(members(group, rank), std::vector<int64_t>(expected.begin(), expected.end()));
  EXPECT_EQ(group.rank(), mesh.coordinate(axis));
  EXPECT_EQ(group.size(), mesh.shape().degree(axis));
  EXPECT_EQ(group.name(), group.size() > 1 ? axis_name(axis) : "self");
}

TEST(Mesh, EveryTripleOfAxes) {
  for (size_t a = 0; a < 6; ++a)
    for (size_t b = a + 1; b < 6; ++b)
      for (size_t c = b + 1; c < 6; ++c)
        run_local(8, [&](Communicator& world) {
          const Mesh mesh(MeshShape({{axes[c], 2}, {axes[a], 2}, {axes[b], 2}}), world);
          for (const Axis axis : axes) expect_axis(mesh, axis);
        });
}

TEST(Mesh, GroupsByHand) {
  run_local(8, [](Communicator& world) {
    const Mesh mesh(parse_mesh("tp=2,ring=2,ulysses=2"), world);
    if (world.rank() != 5) {
      for (const Axis axis : axes) members(mesh.axis(axis), world.rank());
      return;
    }
    EXPECT_THAT(members(mesh.axis(Axis::dp), 5), ::testing::ElementsAre(5));
    EXPECT_THAT(members(mesh.axis(Axis::cfg), 5), ::testing::ElementsAre(5));
    EXPECT_THAT(members(mesh.axis(Axis::stage), 5), ::testing::ElementsAre(5));
    EXPECT_THAT(members(mesh.axis(Axis::tp), 5), ::testing::ElementsAre(1, 5));
    EXPECT_THAT(members(mesh.axis(Axis::ring), 5), ::testing::ElementsAre(5, 7));
    EXPECT_THAT(members(mesh.axis(Axis::ulysses), 5), ::testing::ElementsAre(4, 5));
  });
}

TEST(Mesh, UnequalDegrees) {
  run_local(6, [](Communicator& world) {
    const Mesh mesh(parse_mesh("ring=3,ulysses=2"), world);
    for (const Axis axis : axes) expect_axis(mesh, axis);
    EXPECT_EQ(mesh.coordinate(Axis::ring) * 2 + mesh.coordinate(Axis::ulysses), world.rank());
  });
}

TEST(Mesh, SplitsInAnyOrderOfKeys) {  // groups along each digit of a 2x2x2 rank, forwards and backwards
  run_local(8, [](Communicator& world) {
    for (const int stride : {1, 2, 4})
      for (const int direction : {1, -1}) {
        const int digit = world.rank() / stride % 2, first = world.rank() - digit * stride;
        const auto group = world.split(first, direction * digit, "digit");
        const std::vector<int64_t> forwards{first, first + stride}, backwards{first + stride, first};
        EXPECT_EQ(members(*group, world.rank()), direction > 0 ? forwards : backwards);
      }
  });
}

TEST(Mesh, EmptyMeshIsOneRank) {
  run_local(1, [](Communicator& world) {
    const Mesh mesh(MeshShape{}, world);
    for (const Axis axis : axes) expect_axis(mesh, axis);
  });
}

TEST(Mesh, RefusesAnotherWorldSize) {
  try {
    run_local(4, [](Communicator& world) { const Mesh mesh(parse_mesh("tp=2,ulysses=3"), world); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(error.what(), ::testing::StartsWith("[mesh] mesh tp=2,ulysses=3 needs 6 ranks, not 4"));
  }
}

}  // namespace
}  // namespace shardproof::testing
