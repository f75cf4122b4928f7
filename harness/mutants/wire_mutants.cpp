#include "core/shard.hpp"
#include "harness/mutants/broken.hpp"
#include "harness/mutants/families.hpp"

#include <algorithm>

namespace shardproof {
namespace {

using Change = std::function<void(Arrival&)>;

Mutation of_cargo(std::string name, std::string what, const std::vector<std::string>& strategies, Cargo cargo, Change change,
                  int least_ranks = 2) {
  return {std::move(name),
          std::move(what),
          strategies,
          [cargo, change](const FaultSite&) {
            CommunicatorChanges changes;
            changes.arrival = [cargo, change](Arrival& arrival) {
              if (arrival.cargo == cargo) change(arrival);
            };
            return broken_communicator(changes);
          },
          cargo == Cargo::mask,
          least_ranks};
}

Mutation of_exchange(std::string name, std::string what, Change change, int least_ranks = 2) {
  return of_cargo(
      std::move(name), std::move(what), ulysses_like, Cargo::attention,
      [change](Arrival& arrival) {
        if (arrival.operation == Collective::all_to_all || arrival.operation == Collective::all_to_all_v) change(arrival);
      },
      least_ranks);
}

Mutation of_lengths(std::string name, std::string what, const std::vector<std::string>& strategies,
                    std::function<void(std::vector<std::vector<int64_t>>&)> change) {
  return {std::move(name), std::move(what), strategies, [change](const FaultSite&) {
            CommunicatorChanges changes;
            changes.lengths = change;
            return broken_communicator(changes);
          }};
}

/// Of one group's lengths, each kind of them on its own: queries, keys.
void for_each_kind(std::vector<std::vector<int64_t>>& lengths, const std::function<void(std::vector<int64_t>&)>& change) {
  for (size_t kind = 0; kind < lengths[0].size(); ++kind) {
    std::vector<int64_t> all;
    for (const auto& of_rank : lengths) all.push_back(of_rank[kind]);
    change(all);
    for (size_t rank = 0; rank < lengths.size(); ++rank) lengths[rank][kind] = all[rank];
  }
}

void rotate(Arrival& arrival) { std::rotate(arrival.parts.begin(), arrival.parts.begin() + 1, arrival.parts.end()); }

void round_neighbours(Arrival& arrival, at::ScalarType dtype) {
  Tensor& part = arrival.neighbours();
  part = part.to(dtype).to(part.scalar_type());
}

/// A middle bit of one fp64 number: 2^-16 of it.
void flip_bit(Arrival& arrival) {
  Tensor part = arrival.neighbours().clone(at::MemoryFormat::Contiguous);
  if (arrival.world_rank != 1 || part.numel() == 0 || part.scalar_type() != at::kDouble) return;
  part.view(at::kLong).view({-1})[part.numel() / 2].bitwise_xor_(int64_t{1} << 36);
  arrival.neighbours() = part;
}

std::vector<Mutation> contents_of_arrivals() {
  return {
      of_cargo("stale_part", "what the neighbour sent is overlooked: its buffer still holds the call before", context_parallel,
               Cargo::attention,
               [](Arrival& a) {
                 const size_t neighbour =
                     a.operation == Collective::send_recv ? 0 : static_cast<size_t>(a.rank + 1) % a.parts.size();
                 if (a.before.size() > neighbour && a.before[neighbour].sizes() == a.parts[neighbour].sizes())
                   a.parts[neighbour] = a.before[neighbour];
               }),
      of_cargo("bf16_on_the_wire", "what the neighbour sent was rounded to bf16 for the way", context_parallel, Cargo::attention,
               [](Arrival& a) { round_neighbours(a, at::kBFloat16); }),
      of_cargo("fp32_on_the_wire", "what the neighbour sent was rounded to fp32 for the way", context_parallel, Cargo::attention,
               [](Arrival& a) { round_neighbours(a, at::kFloat); }),
      of_cargo("one_bit_flipped", "one middle bit of one number arrives wrong on rank 1", context_parallel, Cargo::attention,
               flip_bit),
      of_cargo("part_lost", "what the neighbour sent arrives as zeros", context_parallel, Cargo::attention,
               [](Arrival& a) { a.neighbours() = at::zeros_like(a.neighbours()); }),
  };
}

std::vector<Mutation> order_of_arrivals() {
  return {
      of_cargo("own_part_lost", "the own part of an exchange is zeros", not_ring_p2p, Cargo::attention,
               [](Arrival& a) { a.parts[a.rank] = at::zeros_like(a.parts[a.rank]); }),
      of_cargo("neighbours_part_is_own", "the own part stands in for the neighbour's", ring_gathering, Cargo::attention,
               [](Arrival& a) {
                 if (a.operation == Collective::all_gather) a.neighbours() = a.parts[a.rank];
               }),
      of_exchange("peers_rotated", "parts of the all-to-all are one rank off", rotate),
      of_exchange(
          "peers_reversed", "parts of the all-to-all come in reverse rank order",
          [](Arrival& a) { std::reverse(a.parts.begin(), a.parts.end()); }, 3),
  };
}

std::vector<Mutation> arriving_masks() {
  return {
      of_cargo("own_mask_for_all", "masks of other ranks are the own one's", not_ring_p2p, Cargo::mask,
               [](Arrival& a) {
                 const Tensor own = a.parts[a.rank], enough = at::cat({own, own}, 0);
                 for (Tensor& part : a.parts) part = enough.narrow(0, 0, part.size(0));
               }),
      of_cargo("masks_rotated", "masks are gathered one rank off", not_ring_p2p, Cargo::mask, rotate),
      of_cargo("arriving_mask_inverted", "the mask that arrives with a chunk means the opposite", {"ring_p2p"}, Cargo::mask,
               [](Arrival& a) { a.parts[0] = a.parts[0].logical_not(); }),
  };
}

std::vector<Mutation> routes() {
  const auto with_route = [](std::string name, std::string what, decltype(CommunicatorChanges::route) route,
                             int least_ranks) -> Mutation {
    return {std::move(name),
            std::move(what),
            {"ring_p2p"},
            [route](const FaultSite&) {
              CommunicatorChanges changes;
              changes.route = route;
              return broken_communicator(changes);
            },
            false,
            least_ranks};
  };
  return {
      with_route(
          "nothing_passed_on", "every rank sends its chunk to itself",
          [](int& to, int& from, int rank, int, int64_t) { to = from = rank; }, 2),
      with_route(
          "ring_turns_back", "every second chunk goes the other way round",
          [](int& to, int& from, int, int, int64_t call) {
            if (call % 2) std::swap(to, from);
          },
          3),
      with_route(
          "ring_skips_a_rank", "the second chunk comes from two ranks further",
          [](int& to, int& from, int rank, int size, int64_t call) {
            if (call % (size - 1) != 1) return;
            to = (rank + size - 2) % size;
            from = (rank + 2) % size;
          },
          3),
  };
}

std::vector<Mutation> outputs() {
  return {
      of_cargo("gather_rotated", "the output is gathered one rank off", context_parallel, Cargo::output, rotate),
      of_cargo(
          "gather_reversed", "the output is gathered in reverse rank order", context_parallel, Cargo::output,
          [](Arrival& a) { std::reverse(a.parts.begin(), a.parts.end()); }, 3),
      of_cargo("gather_without_own", "the own part of the gathered output is empty", context_parallel, Cargo::output,
               [](Arrival& a) { a.parts[a.rank] = at::zeros_like(a.parts[a.rank]); }),
      of_cargo("gather_too_short", "the last token of the gathered output is cut off", anything, Cargo::output,
               [](Arrival& a) { a.parts.back() = a.parts.back().narrow(0, 0, a.parts.back().size(0) - 1); }),
  };
}

std::vector<Mutation> lengths() {
  return {
      of_lengths("lengths_of_the_sum", "lengths are worked out from the joint length instead of exchanged", anything,
                 [](auto& lengths) {
                   for_each_kind(lengths, [](auto& all) {
                     int64_t sum = 0;
                     for (const int64_t length : all) sum += length;
                     all = uneven_sizes(sum, static_cast<int64_t>(all.size()));
                   });
                 }),
      of_lengths("lengths_swapped", "lengths come in reverse rank order", anything,
                 [](auto& lengths) { std::reverse(lengths.begin(), lengths.end()); }),
      of_lengths("lengths_all_longest", "every rank is taken to bring as many tokens as the longest", anything,
                 [](auto& lengths) {
                   for_each_kind(lengths,
                                 [](auto& all) { std::fill(all.begin(), all.end(), *std::max_element(all.begin(), all.end())); });
                 }),
      of_lengths("lengths_all_shortest", "every rank is taken to bring as few tokens as the shortest", anything,
                 [](auto& lengths) {
                   for_each_kind(lengths,
                                 [](auto& all) { std::fill(all.begin(), all.end(), *std::min_element(all.begin(), all.end())); });
                 }),
  };
}

}  // namespace

std::vector<Mutation> wire_mutants() {
  std::vector<Mutation> all;
  for (const auto& group : {contents_of_arrivals(), order_of_arrivals(), arriving_masks(), routes(), outputs(), lengths()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace shardproof
