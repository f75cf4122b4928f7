#include "comm/recording.hpp"

namespace shardproof {

RecordingCommunicator::RecordingCommunicator(Communicator& inner, std::shared_ptr<Traffic> traffic)
    : Communicator(inner.rank(), inner.size(), inner.name()), inner_(inner), traffic_(std::move(traffic)) {}

RecordingCommunicator::RecordingCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Traffic> traffic)
    : Communicator(inner->rank(), inner->size(), inner->name()), owned_(std::move(inner)), inner_(*owned_), traffic_(std::move(traffic)) {}

std::unique_ptr<Communicator> RecordingCommunicator::do_split(int color, int key, const std::string& label) {
  std::unique_ptr<Communicator> child = inner_.split(color, key, label);
  return child ? std::make_unique<RecordingCommunicator>(std::move(child), traffic_) : nullptr;
}

void RecordingCommunicator::do_all_reduce(Tensor& in_place, Reduction reduction) {
  inner_.all_reduce(in_place, reduction);
  *traffic_ += wire::all_reduce(in_place.numel(), in_place.element_size(), size(), rank());
}

Tensor RecordingCommunicator::do_all_gather(const Tensor& tensor) {
  Tensor result = inner_.all_gather(tensor);
  *traffic_ += wire::all_gather(tensor.numel(), tensor.element_size(), size(), rank());
  return result;
}

std::vector<Tensor> RecordingCommunicator::do_all_gather_v(const Tensor& tensor, const std::vector<int64_t>& dim0_sizes) {
  std::vector<Tensor> result = inner_.all_gather_v(tensor, dim0_sizes);
  *traffic_ += wire::all_gather_v(tensor.numel(), tensor.element_size(), size(), rank());
  return result;
}

Tensor RecordingCommunicator::do_reduce_scatter(const Tensor& tensor) {
  Tensor result = inner_.reduce_scatter(tensor);
  *traffic_ += wire::reduce_scatter(tensor.numel(), tensor.element_size(), size(), rank());
  return result;
}

Tensor RecordingCommunicator::do_all_to_all(const Tensor& tensor) {
  Tensor result = inner_.all_to_all(tensor);
  *traffic_ += wire::all_to_all(tensor.numel(), tensor.element_size(), size(), rank());
  return result;
}

Tensor RecordingCommunicator::do_all_to_all_v(const Tensor& flat, const std::vector<int64_t>& send_counts,
                                              const std::vector<int64_t>& recv_counts) {
  Tensor result = inner_.all_to_all_v(flat, send_counts, recv_counts);
  *traffic_ += wire::all_to_all_v(send_counts, flat.element_size(), rank());
  return result;
}

Tensor RecordingCommunicator::do_send_recv(const Tensor& send, int to, int from) {
  Tensor result = inner_.send_recv(send, to, from);
  *traffic_ += wire::send_recv(send.numel(), send.element_size(), size(), rank(), to);
  return result;
}

void RecordingCommunicator::do_broadcast(Tensor& in_place, int root) {
  inner_.broadcast(in_place, root);
  *traffic_ += wire::broadcast(in_place.numel(), in_place.element_size(), size(), rank(), root);
}

void RecordingCommunicator::do_barrier() { inner_.barrier(); }

std::vector<std::vector<int64_t>> RecordingCommunicator::do_exchange(const std::vector<int64_t>& values) {
  std::vector<std::vector<int64_t>> result = inner_.exchange(values);
  *traffic_ += wire::exchange(static_cast<int64_t>(values.size()), size(), rank());
  return result;
}

}  // namespace shardproof
