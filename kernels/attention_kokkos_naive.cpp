#include "kernels/attention_kokkos.hpp"

#include <cmath>

namespace shardproof {
namespace {

using Policy = Kokkos::TeamPolicy<>;
using Member = Policy::member_type;

template <class A>
using Scratch = Kokkos::View<A*, Kokkos::DefaultExecutionSpace::scratch_memory_space, Unmanaged>;

/// One query and head a team: scores, their exponentials, the weighted mean. As plain as the formula, to
/// judge the flash kernel by.
template <class T, class R>
struct NaiveAttention {
  using A = AccumulateOf<T>;
  Strided4<const T> q, k, v;
  Strided4<R> out;
  Flat<A> lse;
  Rows<const int64_t> order;
  Flat<const int64_t> count;
  int64_t queries, heads, group, width;
  A scale;

  KOKKOS_INLINE_FUNCTION void operator()(const Member& member) const {
    const int64_t row = member.league_rank(), h = row % heads, s = row / heads % queries, b = row / heads / queries,
                  kv = h / group;
    const int64_t keys = count(b);
    Scratch<A> weights(member.team_scratch(1), keys);
    A top = -INFINITY;
    for (int64_t i = 0; i < keys; ++i) {
      A dot = 0;
      for (int64_t d = 0; d < width; ++d) dot += widen(q(b, s, h, d)) * widen(k(b, order(b, i), kv, d));
      weights(i) = dot * scale;
      top = weights(i) > top ? weights(i) : top;
    }
    A sum = 0;
    for (int64_t i = 0; i < keys; ++i) sum += weights(i) = std::exp(weights(i) - top);
    for (int64_t d = 0; d < width; ++d) {
      A mean = 0;
      for (int64_t i = 0; i < keys; ++i) mean += weights(i) * widen(v(b, order(b, i), kv, d));
      out(b, s, h, d) = narrow<R>(keys ? mean / sum : A(0));
    }
    lse(row) = keys ? top + std::log(sum) : -INFINITY;
  }
};

template <class T, class R>
void attend(const AttentionInputs& in, const AttendedKeys& keys, const Attended& result) {
  using A = AccumulateOf<T>;
  const NaiveAttention<T, R> kernel{strided_view<const T>(in.q_BSHD),
                                    strided_view<const T>(in.k_BTHD),
                                    strided_view<const T>(in.v_BTHD),
                                    strided_view<R>(result.out_BSHD),
                                    flat_view<A>(result.lse_BSH),
                                    rows_view<const int64_t>(keys.order_BT),
                                    flat_view<const int64_t>(keys.count_B),
                                    in.queries,
                                    in.heads,
                                    in.group(),
                                    in.width,
                                    static_cast<A>(in.scale())};
  const auto league = static_cast<int>(in.batch * in.queries * in.heads);
  Policy policy(league, 1);
  policy.set_scratch_size(1, Kokkos::PerTeam(Scratch<A>::shmem_size(in.keys)));
  Kokkos::parallel_for("shardproof::attention::naive", policy, kernel);
}

class KokkosNaive final : public AttentionBackend {
 public:
  std::string_view name() const override { return "kokkos_naive"; }
  AttentionTraits traits() const override { return {.lse = true, .mask = true, .gqa = true}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                   bool keep_accumulator) override {
    return run_kokkos_attention(name(), q, k, v, mask, keep_accumulator,
                                []<class T, class R>(const auto& inputs, const auto& keys, const auto& result) {
                                  attend<T, R>(inputs, keys, result);
                                });
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_kokkos_naive() { return std::make_unique<KokkosNaive>(); }

}  // namespace shardproof
