#include "harness/placed.hpp"

#include "core/random.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

Plan plan_of(std::vector<std::pair<Axis, int>> degrees, std::vector<Axis> token_axes) {
  Plan plan{MeshShape(std::move(degrees)), {}, {}, {}};
  if (!token_axes.empty()) plan.inputs["hidden_states"] = {1, 3, std::move(token_axes), false};
  return plan;
}

/// Cuts a whole value for every rank, puts it together, and counts the replicas.
void round_trip(const Plan& plan, const Tensor& whole, const Layout& layout, size_t replicas) {
  const Placed placed(plan, 5, 9);  // uneven on purpose: text 5, image 9
  std::vector<Tensor> parts;
  for (int rank = 0; rank < plan.mesh.world_size(); ++rank) parts.push_back(placed.cut(whole, layout, rank));
  const auto wholes = placed.assemble(parts, layout);
  EXPECT_EQ(wholes.size(), replicas);
  for (const Tensor& joined : wholes) EXPECT_TRUE(at::equal(joined, whole));
}

TEST(Placed, CutAndAssembleAreInverse) {
  const Tensor joint = seeded_normal({2, 14, 6, 2}, 0, "joint"), image = seeded_normal({2, 9, 6}, 0, "image"), text = seeded_normal({2, 5, 6}, 0, "text"),
               temb = seeded_normal({2, 6}, 0, "temb");
  const Plan ring = plan_of({{Axis::ring, 4}}, {Axis::ring}), tp = plan_of({{Axis::tp, 2}}, {});
  const Plan both = plan_of({{Axis::tp, 2}, {Axis::ring, 3}}, {Axis::ring}), two = plan_of({{Axis::ring, 2}, {Axis::ulysses, 2}}, {Axis::ring, Axis::ulysses});
  round_trip(ring, joint, {Tokens::joint, -1, {}}, 1);
  round_trip(ring, image, {Tokens::image, -1, {}}, 1);
  round_trip(ring, text, {Tokens::text, -1, {}}, 1);
  round_trip(ring, temb, {Tokens::none, -1, {}}, 4);
  round_trip(tp, image, {Tokens::image, 2, {}}, 1);
  round_trip(tp, image, {Tokens::image, 2, {2, 4}}, 1);
  round_trip(tp, image, {Tokens::image, -1, {}}, 2);
  round_trip(both, image, {Tokens::image, 2, {1, 2}}, 1);
  round_trip(both, image, {Tokens::image, -1, {}}, 2);
  round_trip(both, temb, {Tokens::none, 1, {}}, 3);
  round_trip(two, joint, {Tokens::joint, 2, {}}, 1);
}

TEST(Placed, JointTokensAreTextThenImageOnEachRank) {  // text [3, 2], image [5, 4] of 5 + 9
  const Placed placed(plan_of({{Axis::ring, 2}}, {Axis::ring}), 5, 9);
  const Tensor whole = at::arange(14, at::kDouble).view({1, 14});
  EXPECT_TRUE(at::equal(placed.cut(whole, {Tokens::joint, -1, {}}, 0), at::tensor({0, 1, 2, 5, 6, 7, 8, 9}, at::kDouble).view({1, 8})));
  EXPECT_TRUE(at::equal(placed.cut(whole, {Tokens::joint, -1, {}}, 1), at::tensor({3, 4, 10, 11, 12, 13}, at::kDouble).view({1, 6})));
}

TEST(Placed, APartOfAnotherShapeIsAnErrorThatNamesTheRank) {
  const Placed placed(plan_of({{Axis::ring, 2}}, {Axis::ring}), 4, 8);
  const Tensor part = at::zeros({1, 4, 2}, at::kDouble);
  test::expect_error(Fault::runtime, {"rank 1", "3 tokens", "4 belong"}, [&] { placed.assemble({part, part.slice(1, 0, 3)}, {Tokens::image, -1, {}}); });
}

}  // namespace
}  // namespace shardproof
