// Throughput of the kernels on this machine. Memory-bound kernels are to be read against `copy` of the same
// run, attention against LibTorch's flash attention; nothing here is compared across runs or machines.

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "kernels/activations.hpp"
#include "kernels/all_to_all_pack.hpp"
#include "kernels/attention_backend.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/merge.hpp"
#include "kernels/modulation.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>

namespace shardproof {
namespace {

constexpr int64_t tokens = 1024, heads = 24, width = 128, channels = heads * width;  // FLUX.1's hidden size
constexpr std::array<at::ScalarType, 2> dtypes{at::kFloat, at::kBFloat16};

Tensor input(at::IntArrayRef shape, at::ScalarType dtype, std::string_view name) {
  return seeded_normal(shape, 1, name).to(dtype);
}

std::string label(std::string_view kernel, at::ScalarType dtype) { return fmt::format("{}/{}", kernel, dtype_name(dtype)); }

/// Registers `call`, which reads and writes `bytes` bytes.
void add_memory_bound(const std::string& name, int64_t bytes, std::function<void()> call) {
  benchmark::RegisterBenchmark(name.c_str(), [bytes, call](benchmark::State& state) {
    const at::InferenceMode guard;
    for (auto _ : state) call();
    state.SetBytesProcessed(state.iterations() * bytes);
  })->UseRealTime();
}

/// Registers one attention; items are multiply-adds counted as two operations.
void add_attention(const std::string& backend, at::ScalarType dtype, int64_t length, int64_t head_count, int64_t head_dim) {
  const auto name = fmt::format("attention/{}/{}/S{}/H{}/D{}", backend, dtype_name(dtype), length, head_count, head_dim);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const at::InferenceMode guard;
    const std::vector<int64_t> shape{1, length, head_count, head_dim};
    const auto q = input(shape, dtype, "q"), k = input(shape, dtype, "k"), v = input(shape, dtype, "v");
    const auto attention = make_attention_backend(backend);
    for (auto _ : state) benchmark::DoNotOptimize(attention->forward(q, k, v, std::nullopt));
    state.SetItemsProcessed(state.iterations() * 4 * length * length * head_count * head_dim);
  })->UseRealTime();
}

void add_attentions() {
  for (const auto dtype : dtypes)
    for (const int64_t head_dim : {64, 128})
      for (const auto& backend : attention_backend_names())
        if (backend != "kokkos_naive") add_attention(backend, dtype, 1024, 4, head_dim);
  add_attention("kokkos_naive", at::kFloat, 1024, 1, 64);
}

void add_copy(at::ScalarType dtype) {
  const auto x = input({1, tokens, channels}, dtype, "x"), y = at::empty_like(x);
  add_memory_bound(label("copy", dtype), 2 * static_cast<int64_t>(x.nbytes()), [=] { y.copy_(x); });
  // What a function that returns a new tensor can reach: the allocator hands out pages that are touched first here.
  add_memory_bound(label("copy_to_new", dtype), 2 * static_cast<int64_t>(x.nbytes()),
                   [=] { benchmark::DoNotOptimize(x.clone()); });
}

void add_elementwise(at::ScalarType dtype) {
  const auto x = input({1, tokens, channels}, dtype, "x"), y = input({1, tokens, channels}, dtype, "y");
  const auto scale = input({1, channels}, dtype, "scale"), shift = input({1, channels}, dtype, "shift");
  const auto by_head = x.view({1, tokens, heads, width}), weight = input({width}, dtype, "weight");
  const auto table = rope_table(at::arange(tokens).unsqueeze(1), {width}, 10000, at::kFloat);
  const auto bytes = static_cast<int64_t>(x.nbytes());
  add_memory_bound(label("layer_norm", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(layer_norm(x, 1e-6)); });
  add_memory_bound(label("rms_norm", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(rms_norm(by_head, weight, 1e-6)); });
  add_memory_bound(label("rope", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(apply_rope(by_head, table)); });
  add_memory_bound(label("modulate", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(modulate(x, scale, shift)); });
  add_memory_bound(label("gate_residual", dtype), 3 * bytes, [=] { benchmark::DoNotOptimize(gate_residual(x, scale, y)); });
  add_memory_bound(label("gelu_tanh", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(gelu_tanh(x)); });
  add_memory_bound(label("silu", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(shardproof::silu(x)); });
}

void add_merge(at::ScalarType dtype) {
  const auto out = input({1, tokens, heads, width}, dtype, "out"), other = input({1, tokens, heads, width}, dtype, "other");
  const auto lse = input({1, tokens, heads}, at::kFloat, "lse");
  add_memory_bound(label("merge_partial", dtype), 3 * static_cast<int64_t>(out.nbytes()), [=] {
    Attended into{out, lse};
    merge_partial(into, {other, lse});
  });
}

void add_pack(at::ScalarType dtype) {
  const auto x = input({1, tokens, heads, width}, dtype, "x");
  const std::vector<int64_t> head_sizes(4, heads / 4), lengths(4, tokens / 4);
  const auto flat = x.flatten();
  const auto bytes = static_cast<int64_t>(x.nbytes());
  const auto to = at::empty_like(x);
  add_memory_bound(label("memcpy", dtype), 2 * bytes, [=] { std::memcpy(to.data_ptr(), x.data_ptr(), x.nbytes()); });
  add_memory_bound(label("pack_heads", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(pack_heads(x, head_sizes)); });
  add_memory_bound(label("unpack_heads", dtype), 2 * bytes,
                   [=] { benchmark::DoNotOptimize(unpack_heads(flat, 1, tokens, head_sizes, width)); });
  add_memory_bound(label("pack_sequence", dtype), 2 * bytes, [=] { benchmark::DoNotOptimize(pack_sequence(x, lengths)); });
  add_memory_bound(label("unpack_sequence", dtype), 2 * bytes,
                   [=] { benchmark::DoNotOptimize(unpack_sequence(flat, 1, lengths, heads, width)); });
}

void add_all() {
  add_attentions();
  for (const auto dtype : dtypes) {
    add_copy(dtype);
    add_elementwise(dtype);
    add_merge(dtype);
    add_pack(dtype);
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  shardproof::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
