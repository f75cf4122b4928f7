#include "comm/collective_call.hpp"

#include "core/dtype.hpp"

#include <algorithm>
#include <array>

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 11> names{"all_reduce", "all_gather", "all_gather_v", "reduce_scatter", "all_to_all", "all_to_all_v",
                                                 "send_recv",  "broadcast",  "barrier",      "exchange",       "split"};

bool same_tensor(const CollectiveCall& a, const CollectiveCall& b) {
  if (a.tensor.has_value() != b.tensor.has_value()) return false;
  if (!a.tensor) return true;
  if (a.tensor->scalar_type() != b.tensor->scalar_type() || a.tensor->device() != b.tensor->device()) return false;
  const at::IntArrayRef left = a.tensor->sizes(), right = b.tensor->sizes();
  if (a.operation == Collective::all_to_all_v) return true;  // its lengths are judged by the counts
  if (a.operation == Collective::all_gather_v) return left.slice(1) == right.slice(1);
  return left == right;
}

/// What must be equal on every rank.
bool same_kind(const CollectiveCall& a, const CollectiveCall& b) {
  return a.operation == b.operation && a.sequence == b.sequence && a.reduction == b.reduction && a.root == b.root &&
         a.sizes == b.sizes && same_tensor(a, b);
}

/// What rank j does with respect to rank i must mirror what i does with respect to j.
bool mirrored(std::span<const CollectiveCall* const> calls, size_t i, size_t j) {
  const CollectiveCall &a = *calls[i], &b = *calls[j];
  switch (a.operation) {
    case Collective::all_to_all_v: return a.send[j] == b.recv[i];
    case Collective::send_recv: return (a.to == static_cast<int>(j)) == (b.from == static_cast<int>(i));
    case Collective::split: return a.color < 0 || a.color != b.color || a.label == b.label;
    default: return true;
  }
}

}  // namespace

std::string_view collective_name(Collective operation) { return names.at(static_cast<size_t>(operation)); }

std::string CollectiveCall::text() const {
  std::string text = fmt::format("{} #{}", collective_name(operation), sequence);
  if (reduction) text += fmt::format(" {}", reduction_name(*reduction));
  if (tensor) text += fmt::format(" {} {}", dtype_name(tensor->scalar_type()), shape_text(tensor->sizes()));
  if (tensor && !tensor->is_cpu()) text += fmt::format(" on {}", tensor->device().str());
  if (operation == Collective::all_gather_v) text += fmt::format(" sizes [{}]", fmt::join(sizes, ", "));
  if (operation == Collective::all_to_all_v)
    text += fmt::format(" send [{}] recv [{}]", fmt::join(send, ", "), fmt::join(recv, ", "));
  if (operation == Collective::send_recv) text += fmt::format(" to {} from {}", to, from);
  if (operation == Collective::broadcast) text += fmt::format(" root {}", root);
  if (operation == Collective::split) text += fmt::format(" color {} label {}", color, label);
  return text;
}

bool calls_match(std::span<const CollectiveCall* const> calls) {
  for (const CollectiveCall* call : calls)
    if (!same_kind(*calls.front(), *call)) return false;
  for (size_t i = 0; i < calls.size(); ++i)
    for (size_t j = 0; j < calls.size(); ++j)
      if (!mirrored(calls, i, j)) return false;
  return true;
}

}  // namespace shardproof
