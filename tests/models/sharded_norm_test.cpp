#include "models/sharded_norm.hpp"

#include "comm/local.hpp"
#include "kernels/rms_norm.hpp"
#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

/// The norm on `ranks` ranks, put back together.
Tensor across(const Tensor& x, const Tensor& weight, int ranks) {
  std::vector<Tensor> parts(ranks);
  run_local(ranks, [&](Communicator& tp) {
    parts[tp.rank()] = rms_norm_across(x.chunk(ranks, -1)[tp.rank()], weight.chunk(ranks)[tp.rank()], 1e-6, x.size(-1), tp);
  });
  return at::cat(parts, -1);
}

// exllamav3#141: the mean over the local features alone gives [0.8485, 1.1314, 0, 0].
TEST(NormAcrossHeads, IsOverAllRanksFeatures) {
  const Tensor x = at::tensor({3.0, 4.0, 0.0, 0.0}).view({1, 4}), ones = at::ones({4}, at::kDouble);
  for (const int ranks : {1, 2, 4})
    EXPECT_TRUE(at::allclose(across(x, ones, ranks), at::tensor({1.2, 1.6, 0.0, 0.0}).view({1, 4}), 1e-6, 1e-9)) << ranks;
}

TEST(NormAcrossHeads, EachRankUsesItsShareOfTheWeight) {
  const Tensor weight = at::tensor({1.0, 2.0, 3.0, 4.0});
  EXPECT_TRUE(at::allclose(across(at::ones({1, 4}, at::kDouble), weight, 2), weight.view({1, 4}), 1e-5, 0));
}

TEST(NormAcrossHeads, AgreesWithOneDevice) {
  at::manual_seed(1);
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Tensor x = at::randn({2, 5, 24}).to(dtype), weight = at::randn({24}).to(dtype);
    const Tensor one = rms_norm(x, weight, 1e-6);
    for (const int ranks : {2, 3, 4})
      EXPECT_TRUE(at::allclose(across(x, weight, ranks).to(at::kDouble), one.to(at::kDouble), dtype == at::kBFloat16 ? 1e-2 : 1e-5, 1e-6)) << ranks;
  }
}

TEST(NormAcrossHeads, NamesWhatDoesNotFit) {
  run_local(2, [](Communicator& tp) {
    const Tensor x = at::ones({1, 2}, at::kDouble);
    test::expect_error(Fault::input, {"[norm]", "[4]", "[2]"}, [&] { rms_norm_across(x, at::ones({4}, at::kDouble), 1e-6, 4, tp); });
    test::expect_error(Fault::input, {"[norm]", "6 features"}, [&] { rms_norm_across(x, at::ones({2}, at::kDouble), 1e-6, 6, tp); });
  });
}

}  // namespace
}  // namespace shardproof
