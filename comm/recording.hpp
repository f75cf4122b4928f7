#pragma once

#include "comm/communicator.hpp"
#include "comm/wire_cost.hpp"

#include <memory>

namespace shardproof {

/// What a rank really sent; compared with a strategy's predicted WireCost.
using Traffic = WireCost;

/// A communicator that adds up what this rank sends and otherwise does what the one inside does.
///
/// A call is counted, by the rules of wire_cost.hpp and the tensors really passed, once it has succeeded.
/// Communicators split from this one count into the same Traffic, so one Traffic holds all of a rank's groups.
class RecordingCommunicator final : public Communicator {
 public:
  /// `inner` must outlive this.
  RecordingCommunicator(Communicator& inner, std::shared_ptr<Traffic> traffic);
  RecordingCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Traffic> traffic);

  const Traffic& traffic() const { return *traffic_; }

 private:
  std::unique_ptr<Communicator> do_split(int color, int key, const std::string& label) override;
  void do_all_reduce(Tensor& in_place, Reduction reduction) override;
  Tensor do_all_gather(const Tensor& tensor) override;
  std::vector<Tensor> do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) override;
  Tensor do_reduce_scatter(const Tensor& tensor) override;
  Tensor do_all_to_all(const Tensor& tensor) override;
  Tensor do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts,
                         const std::vector<int64_t>& recv_counts) override;
  Tensor do_send_recv(const Tensor& send, int to, int from) override;
  void do_broadcast(Tensor& in_place, int root) override;
  void do_barrier() override;
  std::vector<std::vector<int64_t>> do_exchange(const std::vector<int64_t>& values) override;

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace shardproof
