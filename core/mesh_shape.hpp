#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardproof {

/// A mesh axis. ("dim" is for tensors.) The declaration order is the mesh order, outermost first, so that
/// flat rank = (…, tp, ring, ulysses) in row-major order and ring_rank * U + ulysses_rank as in diffusers.
enum class Axis { dp, cfg, stage, tp, ring, ulysses };

std::string_view axis_name(Axis axis);
Axis parse_axis(std::string_view name);

/// Degrees of the named axes of a process mesh; axes that are not named have degree 1.
class MeshShape {
 public:
  MeshShape() = default;
  /// Input Error on a repeated axis or a degree below 1.
  explicit MeshShape(std::vector<std::pair<Axis, int>> degrees);

  int degree(Axis axis) const;
  int world_size() const;
  /// This rank's coordinate along an axis.
  int coordinate(int rank, Axis axis) const;
  /// All ranks that differ from `rank` only along `axis`, in coordinate order.
  std::vector<int> group(int rank, Axis axis) const;
  /// The named axes, outermost first.
  const std::vector<std::pair<Axis, int>>& degrees() const { return degrees_; }
  /// "tp=2,ulysses=4", or "single" for the empty mesh.
  std::string text() const;

  friend bool operator==(const MeshShape&, const MeshShape&) = default;

 private:
  int stride(Axis axis) const;
  std::vector<std::pair<Axis, int>> degrees_;
};

/// Reads "tp=2,ulysses=4". Input Error that names what is wrong and the accepted form.
MeshShape parse_mesh(std::string_view text);

}  // namespace shardproof
