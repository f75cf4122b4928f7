#include "kernels/exec.hpp"

#include "core/error.hpp"

#include <Kokkos_Core.hpp>

#include <cstdlib>
#include <thread>

namespace shardproof {
namespace {

std::thread::id owner;

/// Runs at exit. Kokkos' OpenMP device aborts when another thread finalises it; then leaving it is safer.
void finalise() {
  if (Kokkos::is_initialized() && std::this_thread::get_id() == owner) Kokkos::finalize();
}

void initialise() {
  owner = std::this_thread::get_id();
  if (Kokkos::is_initialized()) return;
#ifdef KOKKOS_ENABLE_OPENMP
  // Bound threads double the time of two processes on two cores; unset, Kokkos prints advice to bind them.
  setenv("OMP_PROC_BIND", "false", 0);
#endif
  Kokkos::initialize();
  std::atexit(finalise);
}

}  // namespace

void ensure_kokkos() {
  static const bool once = (initialise(), true);
  (void)once;
  if (std::this_thread::get_id() != owner)
    fail_runtime("exec", "a kernel was called from a second thread; kernels run on the thread that first used them");
}

}  // namespace shardproof
