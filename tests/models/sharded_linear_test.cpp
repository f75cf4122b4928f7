#include "models/sharded_linear.hpp"

#include "comm/local.hpp"
#include "core/shard.hpp"

#include "tests/support/expect_error.hpp"

namespace shardproof {
namespace {

Tensor row(std::vector<double> values) { return at::tensor(values, at::kDouble).unsqueeze(0); }

Tensor take(const Tensor& x, int64_t dim, const std::vector<int64_t>& blocks, const Communicator& world) {
  std::vector<Tensor> pieces;
  for (const Range& r : packed_share(x.size(dim), blocks, world.size(), world.rank())) pieces.push_back(x.narrow(dim, r.begin, r.size));
  return at::cat(pieces, dim);
}

/// Runs one Linear on `ranks` ranks, each with its shards and its input; every rank's output.
std::vector<Tensor> run(int ranks, const Sharding& sharding, const Tensor& weight, const std::optional<Tensor>& bias, const Tensor& input,
                        at::ScalarType dtype = at::kDouble) {
  std::vector<Tensor> outputs(ranks);
  run_local(ranks, [&](Communicator& world) {
    Tensor w = weight, x = input;
    std::optional<Tensor> b = bias;
    if (const auto* colwise = std::get_if<Colwise>(&sharding)) {
      w = take(w, 0, colwise->blocks, world);
      if (b) b = take(*b, 0, colwise->blocks, world).to(dtype);
    }
    if (const auto* rowwise = std::get_if<Rowwise>(&sharding)) {
      w = take(w, 1, rowwise->blocks, world);
      if (!rowwise->split_input) x = take(x, 1, rowwise->blocks, world);
      if (b) b = b->to(dtype);
    }
    Probe none;
    outputs[world.rank()] = ShardedLinear("fc", sharding, w.to(dtype), b, &world).forward(x.to(dtype), Tokens::none, none);
  });
  return outputs;
}

void expect_everywhere(const std::vector<Tensor>& outputs, const Tensor& expected) {
  for (const Tensor& output : outputs) EXPECT_TRUE(at::equal(output.to(at::kDouble), expected)) << output;
}

// text-generation-inference#1036: a row-wise bias counted once per rank gave [30, 50] at tp 2 and [50, 90] at tp 4.
TEST(ShardedLinear, RowwiseBiasCountsOnce) {
  const Tensor weight = at::ones({2, 4}, at::kDouble), bias = at::tensor({10.0, 20.0}, at::kDouble), x = row({1, 2, 3, 4});
  for (const int ranks : {1, 2, 4})
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      expect_everywhere(run(ranks, Rowwise{}, weight, bias, x, dtype), row({20, 30}));
      expect_everywhere(run(ranks, Rowwise{{}, true}, weight, bias, x, dtype), row({20, 30}));
      expect_everywhere(run(ranks, Rowwise{}, weight, std::nullopt, x, dtype), row({10, 10}));
    }
}

TEST(ShardedLinear, ColwiseBiasIsShardedAlike) {
  const auto outputs = run(2, Colwise{}, at::zeros({4, 4}, at::kDouble), at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble), row({1, 2, 3, 4}));
  EXPECT_TRUE(at::equal(outputs[0], row({1, 2})));
  EXPECT_TRUE(at::equal(outputs[1], row({3, 4})));
}

// sglang#21664: input [attention 4 | mlp 4]; cut contiguously the result would be 21098.
TEST(ShardedLinear, PackedRowwiseFollowsThePackedInput) {
  const Tensor weight = row({1, 10, 100, 1000, 1, 1, 1, 1}), x = row({1, 2, 3, 4, 10, 20, 30, 40});
  expect_everywhere(run(1, Rowwise{{1, 1}, false}, weight, std::nullopt, x), row({4421}));
  expect_everywhere(run(2, Rowwise{{1, 1}, false}, weight, std::nullopt, x), row({4421}));
  expect_everywhere(run(4, Rowwise{{4, 4}, false}, weight, std::nullopt, x), row({4421}));
}

// vllm#3775: gate and up in one weight; a plain column-wise cut pairs gate with gate, [3, 8, 300, 800].
TEST(ShardedLinear, PackedColwiseKeepsGateAndUpTogether) {
  const Tensor weight = row({1, 2, 3, 4, 10, 20, 30, 40}).t().contiguous(), x = row({1});
  const auto swiglu = [&](const Sharding& sharding) {
    std::vector<Tensor> products;
    for (const Tensor& output : run(2, sharding, weight, std::nullopt, x)) {
      const auto halves = output.chunk(2, 1);
      products.push_back(halves[0] * halves[1]);
    }
    return at::cat(products, 1);
  };
  EXPECT_TRUE(at::equal(swiglu(Colwise{{1, 1}}), row({10, 40, 90, 160})));
  EXPECT_TRUE(at::equal(swiglu(Colwise{}), row({3, 8, 300, 800})));  // the fault itself, so that the test can tell
}

TEST(ShardedLinear, AnInputOfAnotherWidthNamesTheModuleAndItsEntry) {
  test::expect_error(Fault::runtime, {"fc (rowwise)", "3 input features", "takes 2"}, [] {
    run_local(2, [](Communicator& world) {
      Probe none;
      ShardedLinear("fc", Rowwise{}, at::ones({2, 2}, at::kDouble), std::nullopt, &world).forward(row({1, 2, 3}), Tokens::none, none);
    });
  });
}

TEST(ShardedLinear, ReplicatedNeedsNoGroup) {
  Probe none;
  const ShardedLinear linear("fc", Replicated{}, at::ones({2, 3}, at::kDouble), std::nullopt, nullptr);
  EXPECT_TRUE(at::equal(linear.forward(row({1, 2, 3}), Tokens::none, none), row({6, 6})));
}

}  // namespace
}  // namespace shardproof
