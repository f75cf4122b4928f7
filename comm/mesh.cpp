#include "comm/mesh.hpp"

#include "core/error.hpp"

namespace shardproof {

Mesh::Mesh(MeshShape shape, Communicator& world) : shape_(std::move(shape)), world_(world) {
  if (shape_.world_size() != world.size())
    fail_input("mesh", "mesh {} needs {} ranks, not {}", shape_.text(), shape_.world_size(), world.size());
  self_ = world.split(world.rank(), 0, "self");
  for (const auto& [axis, degree] : shape_.degrees()) {
    if (degree == 1) continue;
    const int color = shape_.group(world.rank(), axis).front();  // the group's first rank stands for the group
    axes_[axis] = world.split(color, coordinate(axis), std::string(axis_name(axis)));
  }
}

Communicator& Mesh::axis(Axis axis) const {
  const auto found = axes_.find(axis);
  return found == axes_.end() ? *self_ : *found->second;
}

int Mesh::coordinate(Axis axis) const { return shape_.coordinate(world_.rank(), axis); }

}  // namespace shardproof
