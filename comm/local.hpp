#pragma once

#include "comm/communicator.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace shardproof {

struct LocalOptions {
  /// Told which rank runs from now on, -1 for the scheduler; e.g. MemoryProbe::set_owner. Must not throw.
  std::function<void(int rank)> on_switch;
  /// Of each rank's stack; pages are committed when touched, and a guard page ends it.
  size_t stack_bytes = size_t{8} << 20;
};

/// Virtual time. A rank's clock runs while the rank computes and stands still inside collectives; a collective
/// sets the clocks of its group to the latest of them. Moving the data costs nothing: that is modelled elsewhere.
struct LocalReport {
  std::vector<double> rank_clock_s;  ///< seconds, by rank, at the end of its body
  double critical_path_s = 0;        ///< the latest clock: the time N devices would have computed
};

/// Runs `body` once for each of `ranks` virtual ranks and returns when all have ended.
///
/// Ranks are fibers on the calling thread, taken round robin: one runs until it has to wait in a collective. A
/// collective happens once all ranks of the group are in it. The same input gives the same bits in every run.
/// One InferenceMode guard stands outside the fibers.
///
/// Throws, after unwinding every rank's stack:
///   * mismatch, runtime Error before any data is moved: "[comm] mismatched collectives in group world: rank 0:
///     all_reduce #3 sum fp32 [4]; rank 1: …". #3 counts the group's collectives from 0; compared are operation,
///     dtype, device, shape, reduction, root, counts and partners.
///   * deadlock, runtime Error, once no rank can go on (all wait or have ended): every rank's position.
///   * a rank threw: an Error of the same fault (runtime for other exceptions) with that rank's message first,
///     then the positions of the others.
///   * `ranks` below 1 or a call from within a rank: input Error.
///
/// Rules for bodies: an InferenceMode (or other thread-local ATen) guard may not be held across a collective;
/// no collective inside a destructor; a communicator belongs to its rank and to this run.
LocalReport run_local(int ranks, const std::function<void(Communicator& world)>& body, const LocalOptions& options = {});

/// The calling rank's clock so far, in seconds. Right after a collective all ranks of its group read the same,
/// give or take what they did since. Input Error outside a rank.
double local_clock_s();

}  // namespace shardproof
