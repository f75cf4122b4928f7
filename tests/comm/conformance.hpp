#pragma once

#include "comm/communicator.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace shardproof::testing {

/// A communicator implementation under test: how to run a body on every rank of a world.
struct Backend {
  std::string name;
  std::function<void(int ranks, const std::function<void(Communicator& world)>& body)> run;
  friend std::ostream& operator<<(std::ostream& out, const Backend& backend) { return out << backend.name; }
};

/// The rules of communicator.hpp, for any backend and world size. A backend joins the suite with
///   INSTANTIATE_TEST_SUITE_P(Gloo, Conformance, Combine(Values(gloo), Values(1, 2, 3, 4)), conformance_name);
class Conformance : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  int ranks() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator& world)>& body) const { std::get<0>(GetParam()).run(ranks(), body); }
};

inline std::string conformance_name(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
}

/// arange + 100 * rank: distinct for every rank and element.
inline Tensor distinct(int rank, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return (at::arange(c10::multiply_integers(shape), at::kDouble) + 100 * rank).reshape(shape).to(dtype);
}

/// Same dtype, shape and bits, in order.
inline ::testing::AssertionResult same(const Tensor& actual, const Tensor& expected) {
  if (actual.scalar_type() == expected.scalar_type() && actual.sizes() == expected.sizes() && at::equal(actual, expected))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << actual << "\ninstead of\n" << expected;
}

}  // namespace shardproof::testing
