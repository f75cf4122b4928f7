#include "core/shard.hpp"
#include "harness/mutants/broken.hpp"

namespace shardproof {
namespace {

const std::vector<std::string> products{"tp+ulysses"};

Mutation on_mesh(std::string name, std::string what, std::function<FaultInjection(const FaultSite&)> inject) {
  return {std::move(name), std::move(what), products, std::move(inject), false, 4};  // 2 × 2: with fewer an axis has one rank
}

Mutation of_groups(std::string name, std::string what, std::map<std::string, std::string> instead) {
  return on_mesh(std::move(name), std::move(what), [instead](const FaultSite&) {
    CommunicatorChanges changes;
    changes.instead = instead;
    return broken_communicator(changes);
  });
}

/// The slice that belongs to another coordinate along tp.
Slice moved(const Slice& slice, int from, int to) {
  Slice result = slice;
  for (Range& range : result.ranges) range.begin += (to - from) * range.size;
  return result;
}

Mutation of_weights(std::string name, std::string what, std::function<int(const MeshShape&, int rank)> coordinate) {
  return on_mesh(std::move(name), std::move(what), [coordinate](const FaultSite& site) {
    return broken_weights(
        [coordinate, mesh = site.mesh](WeightSource& source, const std::string& name, const Slice& slice, int rank, int) {
          return source.read(name, moved(slice, mesh.coordinate(rank, Axis::tp), coordinate(mesh, rank)));
        });
  });
}

/// What rank 1 and rank 2 of a 2 × 2 mesh are given is what the other should have been given.
Mutation tokens_by_tp_coordinate() {
  return on_mesh("tokens_by_tp_coordinate", "latents are cut by a rank's place along tp", [](const FaultSite& site) {
    FaultInjection fault;
    fault.inputs = [mesh = site.mesh](NamedTensors& inputs, int rank, int, int64_t) {
      const int degree = mesh.degree(Axis::ulysses), right = mesh.coordinate(rank, Axis::ulysses),
                wrong = mesh.coordinate(rank, Axis::tp) % degree;
      Tensor& latents = inputs.at("hidden_states");
      latents = latents.roll((right - wrong) * even_share(latents.size(1), degree, 0).size, 1);
    };
    return fault;
  });
}

}  // namespace

std::vector<Mutation> product_mutants() {
  return {
      of_groups("reduced_over_ulysses", "row-wise sums are taken over the ulysses group", {{"tp", "ulysses"}}),
      of_groups("heads_exchanged_over_tp", "heads are exchanged over the tp group", {{"ulysses", "tp"}}),
      of_groups("groups_swapped", "the tp and the ulysses group are taken for one another",
                {{"tp", "ulysses"}, {"ulysses", "tp"}}),
      of_groups("reduced_over_the_world", "row-wise sums are taken over all ranks", {{"tp", "world"}}),
      of_weights("weights_by_ulysses_coordinate", "weights are cut by a rank's place along ulysses",
                 [](const MeshShape& mesh, int rank) { return mesh.coordinate(rank, Axis::ulysses) % mesh.degree(Axis::tp); }),
      of_weights("weights_of_one_share", "every rank holds the first tp share", [](const MeshShape&, int) { return 0; }),
      tokens_by_tp_coordinate(),
  };
}

}  // namespace shardproof
