#pragma once

namespace shardproof {

/// Initialises Kokkos the first time a kernel runs, and finalises it when the process exits.
///
/// Kokkos' OpenMP device may only be used by the thread that initialised it, so every later call must come
/// from that thread; another one gets a runtime Error here instead of Kokkos' abort. Virtual ranks are fibers
/// on one thread and are free to call it. When a program has already initialised Kokkos itself, that is
/// left alone and never finalised.
void ensure_kokkos();

}  // namespace shardproof
