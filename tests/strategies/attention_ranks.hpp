#pragma once

#include "comm/local.hpp"
#include "comm/recording.hpp"
#include "core/shard.hpp"
#include "strategies/registry.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardproof::test {

/// Which tokens of [text ; image] a rank holds: each is cut over ring, then over ulysses.
inline std::vector<int64_t> tokens_of(const MeshShape& mesh, int rank, int64_t text, int64_t image) {
  std::vector<int64_t> indices;
  for (const auto& [begin, length] : {std::pair{int64_t{0}, text}, {text, image}}) {
    const Range outer = uneven_share(length, mesh.degree(Axis::ring), mesh.coordinate(rank, Axis::ring));
    const Range inner = uneven_share(outer.size, mesh.degree(Axis::ulysses), mesh.coordinate(rank, Axis::ulysses));
    for (int64_t i = 0; i < inner.size; ++i) indices.push_back(begin + outer.begin + inner.begin + i);
  }
  return indices;
}

struct RanksAttention {
  Tensor out_BSHD;             ///< put back into the order of q
  std::vector<Traffic> traffic;
  std::vector<int64_t> peak_key_value_bytes;
};

/// A strategy's attention on virtual ranks. q [B, S, H, D] and k, v [B, T, K, D] are whole; the first `text_q` (`text_k`)
/// tokens of each are text.
inline RanksAttention attend(const std::string& strategy, const MeshShape& mesh, const Tensor& q, const Tensor& k, const Tensor& v, int64_t text_q = 0,
                             int64_t text_k = 0, const std::optional<Tensor>& mask = std::nullopt, const std::string& backend = "kokkos_flash") {
  RanksAttention result{at::empty_like(q), std::vector<Traffic>(mesh.world_size()), std::vector<int64_t>(mesh.world_size())};
  run_local(mesh.world_size(), [&](Communicator& outer) {
    const int rank = outer.rank();
    const auto traffic = std::make_shared<Traffic>();
    RecordingCommunicator world(outer, traffic);
    const Mesh seats(mesh, world);
    KeyValueMeter meter;
    const auto attention = find_strategy(strategy).attention(seats, make_attention_backend(backend), meter);
    const Tensor queries = at::tensor(tokens_of(mesh, rank, text_q, q.size(1) - text_q), at::kLong);
    const Tensor keys = at::tensor(tokens_of(mesh, rank, text_k, k.size(1) - text_k), at::kLong);
    std::optional<Tensor> mine;
    if (mask) mine = mask->index_select(mask->dim() - 1, keys);
    const Tensor out = attention->forward(q.index_select(1, queries), k.index_select(1, keys), v.index_select(1, keys), mine).out_BSHD;
    result.out_BSHD.index_copy_(1, queries, out);
    result.traffic[rank] = *traffic;
    result.peak_key_value_bytes[rank] = meter.peak_bytes();
  });
  return result;
}

}  // namespace shardproof::test
