#pragma once

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "kernels/attention_backend.hpp"
#include "kernels/error_stats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

/// The comparison all kernel tests use, and the inputs they share. References are written here and in the
/// tests in plain ATen, in fp64, from the formula: no kernel is its own reference.
namespace shardproof::test {

/// The fp64 gate: correct code measures below 1e-14, a fault above 1e-3.
constexpr double gate = 1e-12;

inline double relative_l2(const Tensor& x, const Tensor& reference) { return error_stats(x, reference).relative_l2; }

/// What a fault must not pass. Shapes and dtypes are part of the comparison.
inline bool passes(const Tensor& x, const Tensor& reference, double bound = gate) {
  return x.sizes() == reference.sizes() && relative_l2(x, reference) <= bound;
}

/// A few roundings of a dtype, in relative L2: one rounding is at most eps / 2 and about 0.4 of that on average.
inline double rounding_bound(at::ScalarType dtype) { return dtype == at::kDouble ? gate : 4 * dtype_eps(dtype); }

inline Tensor normal(at::IntArrayRef shape, std::string_view name, uint64_t seed = 1) { return seeded_normal(shape, seed, name); }

/// The same values with other strides: every second element of a tensor twice as wide.
inline Tensor spread(const Tensor& x) { return at::stack({x, x + 1}, -1).select(-1, 0); }

/// All four dtypes a kernel takes.
inline const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> all{at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
  return all;
}

/// The message of the input Error that `call` throws; "" and a test failure when it throws none.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

struct Qkv {
  Tensor q, k, v;
};

/// The three input families of docs/numerics.md, in fp64.
inline Qkv family(const std::string& name, int64_t B, int64_t S, int64_t T, int64_t H, int64_t KV, int64_t D, uint64_t seed = 1) {
  Qkv x{normal({B, S, H, D}, "q", seed), normal({B, T, KV, D}, "k", seed), normal({B, T, KV, D}, "v", seed)};
  if (name == "randn") return x;
  const auto chunk = at::floor(at::arange(T, at::kDouble) * 4 / T).view({1, T, 1, 1}) / 3;  // 0, 1/3, 2/3, 1
  x = {x.q * 1.5, x.k * (0.3 + 1.7 * chunk), x.v + (2 * chunk - 1)};
  if (name == "negative_logits") x = {x.q + 0.7, x.k - 0.7, x.v};
  return x;
}

inline const std::vector<std::string>& families() {
  static const std::vector<std::string> all{"randn", "structured", "negative_logits"};
  return all;
}

/// Attention from the formula, in fp64, one batch item and head at a time; rows that see no key are 0 and -inf.
inline Attended attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const std::optional<Tensor>& mask = std::nullopt) {
  const auto B = q.size(0), S = q.size(1), H = q.size(2), D = q.size(3), group = H / k.size(2);
  Attended result{at::zeros({B, S, H, D}, at::kDouble),
                  at::full({B, S, H}, -std::numeric_limits<double>::infinity(), at::kDouble)};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) {
      const auto seen = mask ? mask->reshape({B, -1})[b].nonzero().flatten() : at::arange(k.size(1));
      if (seen.numel() == 0) continue;
      const auto qs = q[b].select(1, h).to(at::kDouble), ks = k[b].select(1, h / group).index_select(0, seen).to(at::kDouble);
      const auto vs = v[b].select(1, h / group).index_select(0, seen).to(at::kDouble);
      const auto scores = at::mm(qs, ks.t()) / std::sqrt(static_cast<double>(D));
      result.out_BSHD[b].select(1, h).copy_(at::mm(at::softmax(scores, 1), vs));
      result.lse_BSH[b].select(1, h).copy_(at::logsumexp(scores, {1}));
    }
  return result;
}

}  // namespace shardproof::test
