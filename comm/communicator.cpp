#include "comm/communicator.hpp"

#include "core/error.hpp"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace shardproof {
namespace {

/// Where an argument check failed: the operation and the group.
struct Site {
  std::string_view operation;
  const Communicator& group;

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (holds) return;
    fail_runtime("comm", "{} in group {}, rank {}: {}", operation, group.name(), group.rank(),
                 fmt::format(text, std::forward<Args>(args)...));
  }
};

void require_plain(const Site& site, const Tensor& tensor) {
  site.require(tensor.defined(), "the tensor is undefined");
  site.require(tensor.layout() == at::kStrided, "the tensor is not strided");
  site.require(!tensor.is_conj() && !tensor.is_neg(), "the tensor is a lazy conjugate or negative: resolve it first");
}

void require_summable(const Site& site, const Tensor& tensor) {
  site.require(tensor.scalar_type() != at::kBool, "bool tensors cannot be reduced");
}

void require_rows(const Site& site, const Tensor& tensor) {
  site.require(tensor.dim() >= 1 && tensor.size(0) == site.group.size(), "dim 0 of {} must be the group's size {}",
               shape_text(tensor.sizes()), site.group.size());
}

void require_rank(const Site& site, int rank, std::string_view what) {
  site.require(rank >= 0 && rank < site.group.size(), "{} {} is outside the group of {}", what, rank, site.group.size());
}

void require_sizes(const Site& site, const std::vector<int64_t>& sizes, std::string_view what) {
  const bool valid = std::ssize(sizes) == site.group.size() && std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n >= 0; });
  site.require(valid, "{} [{}] must be one size of at least 0 for each of {} ranks", what, fmt::join(sizes, ", "), site.group.size());
}

/// Runs an in-place operation on a contiguous tensor, whatever the strides of the caller's (D-09).
template <class Operation>
void in_place(const Site& site, Tensor& tensor, Operation operation) {
  require_plain(site, tensor);
  site.require(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "elements of the tensor share memory: it cannot be written");
  Tensor contiguous = tensor.contiguous();
  operation(contiguous);
  if (!contiguous.is_same(tensor)) tensor.copy_(contiguous);
}

}  // namespace

std::string_view reduction_name(Reduction reduction) {
  static constexpr std::array<std::string_view, 3> names{"sum", "max", "min"};
  return names.at(static_cast<size_t>(reduction));
}

Communicator::Communicator(int rank, int size, std::string name) : rank_(rank), size_(size), name_(std::move(name)) {
  if (size < 1 || rank < 0 || rank >= size) fail_runtime("comm", "rank {} of a group of {} does not exist", rank, size);
}

std::unique_ptr<Communicator> Communicator::split(int color, int key, std::string label) { return do_split(color, key, label); }

void Communicator::all_reduce(Tensor& tensor, Reduction reduction) {
  const Site site{"all_reduce", *this};
  in_place(site, tensor, [&](Tensor& contiguous) {
    require_summable(site, contiguous);
    do_all_reduce(contiguous, reduction);
  });
}

Tensor Communicator::all_gather(const Tensor& tensor) {
  require_plain({"all_gather", *this}, tensor);
  return do_all_gather(tensor.contiguous());
}

std::vector<Tensor> Communicator::all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) {
  const Site site{"all_gather_v", *this};
  require_plain(site, tensor);
  require_sizes(site, dim0_sizes, "dim0_sizes");
  site.require(tensor.dim() >= 1 && tensor.size(0) == dim0_sizes.at(rank_), "dim 0 of {} must be this rank's size {}",
               shape_text(tensor.sizes()), dim0_sizes.at(rank_));
  return do_all_gather_v(tensor.contiguous(), dim0_sizes);
}

Tensor Communicator::reduce_scatter(const Tensor& tensor) {
  const Site site{"reduce_scatter", *this};
  require_plain(site, tensor);
  require_summable(site, tensor);
  require_rows(site, tensor);
  return do_reduce_scatter(tensor.contiguous());
}

Tensor Communicator::all_to_all(const Tensor& tensor) {
  const Site site{"all_to_all", *this};
  require_plain(site, tensor);
  require_rows(site, tensor);
  return do_all_to_all(tensor.contiguous());
}

Tensor Communicator::all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts, const std::vector<int64_t>& recv_counts) {
  const Site site{"all_to_all_v", *this};
  require_plain(site, flat);
  require_sizes(site, send_counts, "send_counts");
  require_sizes(site, recv_counts, "recv_counts");
  const int64_t sent = std::accumulate(send_counts.begin(), send_counts.end(), int64_t{0});
  site.require(flat.dim() == 1 && flat.numel() == sent, "{} must be 1-D with the sum of send_counts, {}", shape_text(flat.sizes()), sent);
  return do_all_to_all_v(flat.contiguous(), send_counts, recv_counts);
}

Tensor Communicator::send_recv(const Tensor& send, int to, int from) {
  const Site site{"send_recv", *this};
  require_plain(site, send);
  require_rank(site, to, "to");
  require_rank(site, from, "from");
  return do_send_recv(send.contiguous(), to, from);
}

void Communicator::broadcast(Tensor& tensor, int root) {
  const Site site{"broadcast", *this};
  require_rank(site, root, "root");
  in_place(site, tensor, [&](Tensor& contiguous) { do_broadcast(contiguous, root); });
}

void Communicator::barrier() { do_barrier(); }

std::vector<std::vector<int64_t>> Communicator::exchange(const std::vector<int64_t>& values) { return do_exchange(values); }

}  // namespace shardproof
