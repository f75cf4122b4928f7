#include "kernels/exec.hpp"
#include "kernels/layer_norm.hpp"
#include "tests/kernels/compare.hpp"

#include <boost/context/fiber.hpp>

#include <Kokkos_Core.hpp>

#include <thread>

namespace shardproof::test {
namespace {

TEST(Exec, InitialisesOnceAndAgain) {
  ensure_kokkos();
  ensure_kokkos();
  EXPECT_TRUE(Kokkos::is_initialized());
}

TEST(Exec, RefusesASecondThread) {
  ensure_kokkos();
  std::string message;
  std::thread([&] {
    try {
      layer_norm(at::ones({2, 4}), 1e-6);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::runtime);
      message = error.what();
    }
  }).join();
  EXPECT_THAT(message, testing::HasSubstr("[exec] a kernel was called from a second thread"));
}

TEST(Exec, RunsInsideAFiber) {
  namespace context = boost::context;
  const auto x = family("structured", 1, 40, 70, 2, 2, 8);
  const auto right = make_attention_backend("kokkos_flash")->forward(x.q, x.k, x.v, std::nullopt);
  Attended got;
  context::fiber fiber{std::allocator_arg, context::fixedsize_stack(1 << 20), [&](context::fiber&& caller) {
                         got = make_attention_backend("kokkos_flash")->forward(x.q, x.k, x.v, std::nullopt);
                         return std::move(caller);
                       }};
  fiber = std::move(fiber).resume();
  EXPECT_TRUE(at::equal(got.out_BSHD, right.out_BSHD));
}

}  // namespace
}  // namespace shardproof::test
