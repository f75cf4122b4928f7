// Kokkos flash attention beside LibTorch's CPU flash attention, in the same run: times in turn, and both errors against
// fp64. Every way this processor can multiply tiles is shown; the targets are for the one that kokkos_flash picks.

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "harness/bench/paired.hpp"
#include "kernels/attention_flash.hpp"
#include "kernels/error_stats.hpp"

#include <fmt/format.h>

#include <array>

namespace shardproof::bench {
namespace {

constexpr int64_t heads = 2;
constexpr std::array<std::string_view, 3> products_names{"portable", "brgemm_fp32", "brgemm"};

struct Qkv {
  Tensor q, k, v;
};

Qkv inputs(int64_t length, int64_t head_dim, at::ScalarType dtype) {
  const auto make = [&](std::string_view name) { return seeded_normal({1, length, heads, head_dim}, 1, name).to(dtype); };
  return {make("q"), make("k"), make("v")};
}

/// The worst head's error is not of interest here: relative L2 of the whole result against the formula in fp64.
double error(AttentionBackend& backend, const Qkv& x) {
  const auto right =
      make_attention_backend("aten_math")->forward(x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble), std::nullopt);
  return error_stats(backend.forward(x.q, x.k, x.v, std::nullopt).out_BSHD, right.out_BSHD).relative_l2;
}

void add_attention(at::ScalarType dtype, int64_t length, int64_t head_dim, FlashProducts products, double target) {
  struct Both {
    Qkv x;
    std::shared_ptr<AttentionBackend> ours, other;
  };
  const auto both = std::make_shared<Both>();
  const auto prepare = [=] {  // not before it runs: a filter may leave it out
    if (!both->ours) *both = {inputs(length, head_dim, dtype), make_kokkos_flash(products), make_attention_backend("aten_flash")};
  };
  const auto attend = [=](std::shared_ptr<AttentionBackend> Both::*backend) {
    return [=] {
      prepare();
      benchmark::DoNotOptimize((*both.*backend).get()->forward(both->x.q, both->x.k, both->x.v, std::nullopt));
    };
  };
  add({.name = fmt::format("attention/{}/S{}/D{}/{}", dtype_name(dtype), length, head_dim,
                           products_names[static_cast<size_t>(products)]),
       .ours = attend(&Both::ours),
       .other = attend(&Both::other),
       .target = target,
       .work = 4 * length * length * heads * head_dim,
       .pairs = length > 2048 ? 11 : 31,
       .error_ratio = [=] { return error(*both->ours, both->x) / error(*both->other, both->x); }});
}

void add_all() {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t length : {1024, 2048, 4608})
      for (const int64_t head_dim : {64, 128}) {
        const auto possible = flash_products(dtype);
        for (const auto products : possible) {
          const bool judged = products == possible.front() && dtype != at::kHalf;
          if (judged || length == 1024)
            add_attention(dtype, length, head_dim, products, !judged ? 0 : dtype == at::kFloat ? 1.1 : 2.0);
        }
      }
}

}  // namespace
}  // namespace shardproof::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  shardproof::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  shardproof::bench::print_summary();
  benchmark::Shutdown();
}
