#include "harness/placed.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <map>

namespace shardproof {
namespace {

Tensor take(const Tensor& whole, int64_t dim, const std::vector<Range>& ranges) {
  std::vector<Tensor> pieces;
  for (const Range& range : ranges) pieces.push_back(whole.narrow(dim, range.begin, range.size));
  return at::cat(pieces, dim);
}

Range share_of(int64_t length, const MeshShape& mesh, const std::vector<Axis>& axes, int rank) {
  Range range{0, length};
  for (const Axis axis : axes) {
    const Range inner = uneven_share(range.size, mesh.degree(axis), mesh.coordinate(rank, axis));
    range = {range.begin + inner.begin, inner.size};
  }
  return range;
}

}  // namespace

Placed::Placed(const Plan& plan, int64_t text_tokens, int64_t image_tokens)
    : mesh_(plan.mesh), text_tokens_(text_tokens), image_tokens_(image_tokens) {
  const auto split = plan.inputs.find("hidden_states");
  if (split != plan.inputs.end() && split->second.dim == 1) token_axes_ = split->second.axes;
}

std::vector<Range> Placed::token_ranges(Tokens tokens, int rank) const {
  const Range text = share_of(text_tokens_, mesh_, token_axes_, rank), image = share_of(image_tokens_, mesh_, token_axes_, rank);
  switch (tokens) {
    case Tokens::text: return {text};
    case Tokens::image: return {image};
    case Tokens::joint: return {text, {text_tokens_ + image.begin, image.size}};
    case Tokens::none: break;
  }
  return {};
}

std::vector<Range> Placed::ranges(const Layout& layout, int64_t dim, int64_t length, int rank) const {
  if (dim == 1 && layout.tokens != Tokens::none) return token_ranges(layout.tokens, rank);
  if (dim == layout.tp_dim) return packed_share(length, layout.blocks, mesh_.degree(Axis::tp), mesh_.coordinate(rank, Axis::tp));
  return {{0, length}};
}

Tensor Placed::cut(const Tensor& whole, const Layout& layout, int rank) const {
  Tensor part = whole;
  for (int64_t dim = 0; dim < whole.dim(); ++dim) part = take(part, dim, ranges(layout, dim, whole.size(dim), rank));
  return part;
}

int Placed::replica(const Layout& layout, int rank) const {
  int id = 0;
  for (const auto& [axis, degree] : mesh_.degrees()) {
    const bool tokens = layout.tokens != Tokens::none && std::find(token_axes_.begin(), token_axes_.end(), axis) != token_axes_.end();
    const bool features = layout.tp_dim >= 0 && axis == Axis::tp;
    if (!tokens && !features) id = id * degree + mesh_.coordinate(rank, axis);
  }
  return id;
}

int64_t Placed::whole_length(const Layout& layout, int64_t dim, int64_t local, int rank) const {
  if (dim == 1 && layout.tokens != Tokens::none) {
    const int64_t expected = total_size(token_ranges(layout.tokens, rank));
    if (local != expected) fail_runtime("parity", "rank {} holds {} tokens where {} belong", rank, local, expected);
    return (layout.tokens == Tokens::image ? 0 : text_tokens_) + (layout.tokens == Tokens::text ? 0 : image_tokens_);
  }
  return dim == layout.tp_dim ? local * mesh_.degree(Axis::tp) : local;
}

std::vector<Tensor> Placed::assemble(const std::vector<Tensor>& parts, const Layout& layout) const {
  std::map<int, std::pair<Tensor, int64_t>> wholes;  // by replica: the tensor, and how many elements were placed
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    const Tensor& part = parts[rank];
    std::vector<int64_t> shape;
    for (int64_t dim = 0; dim < part.dim(); ++dim) shape.push_back(whole_length(layout, dim, part.size(dim), rank));
    auto& [whole, placed] = wholes.try_emplace(replica(layout, rank), at::empty(shape, part.options()), 0).first->second;
    if (whole.sizes() != at::IntArrayRef(shape))
      fail_runtime("parity", "rank {} holds a part of {}, other ranks parts of {}", rank, shape_text(shape), shape_text(whole.sizes()));
    // At most one of the dims is cut into several runs; index tensors keep the general case plain.
    std::vector<Tensor> index;
    for (int64_t dim = 0; dim < part.dim(); ++dim)
      index.push_back(take(at::arange(shape[dim], at::kLong), 0, ranges(layout, dim, shape[dim], rank)));
    c10::List<std::optional<Tensor>> grid;
    for (int64_t dim = 0; dim < part.dim(); ++dim) {
      std::vector<int64_t> view(part.dim(), 1);
      view[dim] = -1;
      grid.push_back(index[dim].view(view));
    }
    whole.index_put_(grid, part);
    placed += part.numel();
  }
  std::vector<Tensor> result;
  for (auto& [id, entry] : wholes) {
    if (entry.second != entry.first.numel())
      fail_runtime("parity", "the ranks' parts hold {} of {} elements", entry.second, entry.first.numel());
    result.push_back(entry.first);
  }
  return result;
}

}  // namespace shardproof
