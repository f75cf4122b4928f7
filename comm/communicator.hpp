#pragma once

#include "core/tensor.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// How all_reduce combines the ranks' values.
enum class Reduction { sum, max, min };

std::string_view reduction_name(Reduction reduction);

/// One rank's seat in a group of ranks, and the collectives of that group.
///
/// Every operation is collective: all ranks of the group call the same operation, in the same order, with the
/// same dtype and (except where noted) the same shape. It blocks the caller; on a device it is ordered on the
/// current stream. Tensors of any strides are accepted: this class hands contiguous tensors to the
/// implementation and copies in-place results back. Returned tensors are new and share no storage with an
/// input, with one another, or with another rank's. N below is the group's size.
///
/// Errors are runtime Errors: wrong arguments at once; where the implementation can tell, also arguments that
/// do not match the other ranks', before any data is moved.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }                 ///< within this group
  int size() const { return size_; }                 ///< N
  const std::string& name() const { return name_; }  ///< for messages: "world", "ulysses", …

  /// The sub-group of all ranks that gave this `color`, ordered by `key`, then by rank. A negative color takes
  /// part in the call but joins no group: nullptr. `label` becomes the name.
  std::unique_ptr<Communicator> split(int color, int key, std::string label);

  /// Combines all ranks' values, in rank order ((x0 + x1) + x2 …), in the tensor's own dtype: in bf16 and fp16
  /// every addition rounds. For a sum in fp32 the caller casts before. Not for bool.
  void all_reduce(Tensor& in_place, Reduction reduction = Reduction::sum);

  /// [...] → [N, ...]
  Tensor all_gather(const Tensor& tensor);

  /// Rank r gives [dim0_sizes[r], ...] (0 is allowed); every rank gets all of them, in rank order, each with
  /// its own storage. All ranks pass the same sizes.
  std::vector<Tensor> all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes);

  /// [N, ...] → [...]: rank r gets the sum over ranks of row r, added as in all_reduce. Not for bool.
  Tensor reduce_scatter(const Tensor& tensor);

  /// [N, ...] → [N, ...]: row i goes to rank i; row j of the result came from rank j.
  Tensor all_to_all(const Tensor& tensor);

  /// 1-D in, 1-D out, in elements: the first send_counts[0] go to rank 0, the next to rank 1, …; the result
  /// is what came from rank 0, then rank 1, …. A rank's recv_counts[i] is rank i's send_counts[rank].
  Tensor all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts, const std::vector<int64_t>& recv_counts);

  /// Sends to rank `to` and receives the same shape and dtype from rank `from`. All ranks of the group call it
  /// and their `to`s are a permutation; a rank with nothing to exchange passes itself twice.
  Tensor send_recv(const Tensor& send, int to, int from);

  /// Every rank's tensor becomes rank `root`'s.
  void broadcast(Tensor& in_place, int root);

  void barrier();

  /// Small host metadata (lengths, shapes) over a CPU channel: every rank's values, in rank order. The lists
  /// may differ in length.
  std::vector<std::vector<int64_t>> exchange(const std::vector<int64_t>& values);

 protected:
  Communicator(int rank, int size, std::string name);

 private:
  // The implementation: arguments are checked, tensors contiguous and defined. Results are newly allocated.
  virtual std::unique_ptr<Communicator> do_split(int color, int key, const std::string& label) = 0;
  virtual void do_all_reduce(Tensor& in_place, Reduction reduction) = 0;
  virtual Tensor do_all_gather(const Tensor& tensor) = 0;
  virtual std::vector<Tensor> do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) = 0;
  virtual Tensor do_reduce_scatter(const Tensor& tensor) = 0;
  virtual Tensor do_all_to_all(const Tensor& tensor) = 0;
  virtual Tensor do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts,
                                 const std::vector<int64_t>& recv_counts) = 0;
  virtual Tensor do_send_recv(const Tensor& send, int to, int from) = 0;
  virtual void do_broadcast(Tensor& in_place, int root) = 0;
  virtual void do_barrier() = 0;
  virtual std::vector<std::vector<int64_t>> do_exchange(const std::vector<int64_t>& values) = 0;

  int rank_;
  int size_;
  std::string name_;
};

}  // namespace shardproof
