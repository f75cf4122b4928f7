#include "core/mesh_shape.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

TEST(MeshShape, RankIsRowMajorWithUlyssesInnermost) {  // diffusers: ring_rank * U + ulysses_rank
  const MeshShape mesh({{Axis::ulysses, 2}, {Axis::ring, 3}});
  EXPECT_EQ(mesh.world_size(), 6);
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(mesh.coordinate(rank, Axis::ring), rank / 2);
    EXPECT_EQ(mesh.coordinate(rank, Axis::ulysses), rank % 2);
    EXPECT_EQ(mesh.coordinate(rank, Axis::tp), 0);
  }
  EXPECT_EQ(mesh.group(3, Axis::ring), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(mesh.group(3, Axis::ulysses), (std::vector<int>{2, 3}));
  EXPECT_EQ(mesh.group(3, Axis::dp), (std::vector<int>{3}));
}

TEST(MeshShape, TextAndParsingAgree) {
  const MeshShape mesh = parse_mesh("ulysses=4,tp=2");
  EXPECT_EQ(mesh.text(), "tp=2,ulysses=4");
  EXPECT_EQ(parse_mesh(mesh.text()), mesh);
  EXPECT_EQ(MeshShape().text(), "single");
  EXPECT_EQ(MeshShape().world_size(), 1);
}

TEST(MeshShape, RefusesWhatItDoesNotUnderstand) {
  for (const auto* text : {"tp", "tp=", "tp=x", "tp=2x", "tp=2,"})
    test::expect_error(Fault::input, {"tp=2,ulysses=4"}, [&] { parse_mesh(text); });
  test::expect_error(Fault::input, {"\"pp\"", "ulysses"}, [] { parse_mesh("pp=2"); });
  test::expect_error(Fault::input, {"tp is given twice"}, [] { parse_mesh("tp=2,tp=2"); });
  test::expect_error(Fault::input, {"degree 0", "tp"}, [] { parse_mesh("tp=0"); });
  test::expect_error(Fault::input, {"degree -1", "tp"}, [] { parse_mesh("tp=-1"); });
}

}  // namespace
}  // namespace shardproof
