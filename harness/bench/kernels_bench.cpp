// The memory-bound kernels beside a copy that moves as many bytes on as many threads, in the same run and in turn. Tensors
// of 64 MiB, which no cache holds (judged), and of 2 MiB, which one may (shown).

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "harness/bench/paired.hpp"
#include "kernels/activations.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "kernels/exec.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/merge.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

#include <Kokkos_Core.hpp>

#include <fmt/format.h>
#include <malloc.h>

#include <cstring>

namespace shardproof::bench {
namespace {

constexpr int64_t heads = 24, width = 128, channels = heads * width;  // FLUX.1's hidden size
constexpr double target = 0.8;

/// Copies half of `bytes` to the other half: each thread one memcpy over its share.
std::function<void()> copy_of(int64_t bytes) {
  ensure_kokkos();
  const auto from = at::ones({bytes / 2}, at::kByte), to = at::ones_like(from);
  return [from, to] {
    const auto* source = from.const_data_ptr<uint8_t>();
    auto* target_bytes = to.data_ptr<uint8_t>();
    const int64_t size = from.numel(), threads = Kokkos::DefaultExecutionSpace::concurrency();
    Kokkos::parallel_for("shardproof::bench::copy", Kokkos::RangePolicy<>(0, threads), [=](int64_t part) {
      const int64_t begin = size * part / threads, end = size * (part + 1) / threads;
      std::memcpy(target_bytes + begin, source + begin, static_cast<size_t>(end - begin));
    });
  };
}

/// What the cases of one dtype and size share.
struct Inputs {
  Tensor x, y, scale, shift, weight, lse;
  RopeTable table;
  int64_t tokens;
};

Inputs make_inputs(at::ScalarType dtype, int64_t bytes) {
  const int64_t tokens = bytes / channels / c10::elementSize(dtype) / 4 * 4;
  const auto make = [&](at::IntArrayRef shape, std::string_view name) { return seeded_normal(shape, 1, name).to(dtype); };
  return {make({1, tokens, channels}, "x"),
          make({1, tokens, channels}, "y"),
          make({1, channels}, "scale"),
          make({1, channels}, "shift"),
          make({width}, "weight"),
          seeded_normal({1, tokens, heads}, 1, "lse").to(at::kFloat),
          rope_table(at::arange(tokens).unsqueeze(1), {width}, 10000, at::kFloat),
          tokens};
}

/// Registers `call`, which moves `tensors` tensors of the size of x, against such a copy.
void add_kernel(std::string_view kernel, at::ScalarType dtype, const Inputs& in, bool judged, int64_t tensors,
                std::function<Tensor()> call) {
  const int64_t bytes = tensors * static_cast<int64_t>(in.x.nbytes());
  add({.name = fmt::format("{}/{}/{}", kernel, dtype_name(dtype), judged ? "64MiB" : "2MiB"),
       .ours = [call] { benchmark::DoNotOptimize(call()); },
       .other = copy_of(bytes),
       .target = judged ? target : 0,
       .work = bytes,
       .pairs = judged ? 21 : 301});
}

void add_size(at::ScalarType dtype, bool judged) {
  const Inputs in = make_inputs(dtype, judged ? 64 << 20 : 2 << 20);
  const auto by_head = in.x.view({1, in.tokens, heads, width}), other = in.y.view_as(by_head), flat = in.x.flatten();
  const std::vector<int64_t> head_sizes(4, heads / 4), lengths(4, in.tokens / 4);
  const auto kernel = [&](std::string_view name, int64_t tensors, std::function<Tensor()> call) {
    add_kernel(name, dtype, in, judged, tensors, std::move(call));
  };
  kernel("copy_to_new", 2, [=] { return in.x.clone(); });
  kernel("layer_norm", 2, [=] { return layer_norm(in.x, 1e-6); });
  kernel("rms_norm", 2, [=] { return rms_norm(by_head, in.weight, 1e-6); });
  kernel("rope", 2, [=] { return apply_rope(by_head, in.table); });
  kernel("modulate", 2, [=] { return modulate(in.x, in.scale, in.shift); });
  kernel("gate_residual", 3, [=] { return gate_residual(in.x, in.scale, in.y); });
  kernel("gelu_tanh", 2, [=] { return gelu_tanh(in.x); });
  kernel("silu", 2, [=] { return shardproof::silu(in.x); });
  kernel("merge_partial", 3, [=] {
    Attended into{by_head, in.lse};
    merge_partial(into, {other, in.lse});
    return into.out_BSHD;
  });
  kernel("pack_heads", 2, [=] { return pack_heads(by_head, head_sizes); });
  kernel("unpack_heads", 2, [=] { return unpack_heads(flat, 1, in.tokens, head_sizes, width); });
  kernel("pack_sequence", 2, [=] { return pack_sequence(by_head, lengths); });
  kernel("unpack_sequence", 2, [=] { return unpack_sequence(flat, 1, lengths, heads, width); });
}

}  // namespace
}  // namespace shardproof::bench

int main(int argc, char** argv) {
  // Results are new tensors. The allocator keeps their memory, as it does in a model that runs layer after layer, or the
  // page faults of fresh memory would be most of every time here.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const bool judged : {true, false})
    for (const auto dtype : {at::kFloat, at::kBFloat16}) shardproof::bench::add_size(dtype, judged);
  benchmark::RunSpecifiedBenchmarks();
  shardproof::bench::print_summary();
  benchmark::Shutdown();
}
