#pragma once

#include "comm/communicator.hpp"
#include "core/mesh_shape.hpp"

#include <map>
#include <memory>

namespace shardproof {

/// One rank's view of a process mesh: a communicator for the world and one for each axis.
///
/// Rank r of the world has the coordinates MeshShape gives it; the group of an axis holds the ranks that differ
/// along that axis only, and a rank's number in that group is its coordinate. Axes that are not named, or have
/// degree 1, share one group of size 1. Building a mesh is a collective of the world: every rank builds the same.
class Mesh {
 public:
  /// `world` must outlive the mesh. Input Error unless the product of the degrees is the world's size.
  Mesh(MeshShape shape, Communicator& world);

  const MeshShape& shape() const { return shape_; }
  Communicator& world() const { return world_; }
  /// The group along an axis, named after it; of size 1 for axes that are not named.
  Communicator& axis(Axis axis) const;
  /// This rank's coordinate along an axis; 0 for axes that are not named.
  int coordinate(Axis axis) const;

 private:
  MeshShape shape_;
  Communicator& world_;
  std::unique_ptr<Communicator> self_;
  std::map<Axis, std::unique_ptr<Communicator>> axes_;
};

}  // namespace shardproof
