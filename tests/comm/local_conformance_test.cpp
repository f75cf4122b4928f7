#include "comm/local.hpp"
#include "comm/recording.hpp"
#include "tests/comm/conformance.hpp"

namespace shardproof::testing {
namespace {

const Backend local{"local", [](int ranks, const auto& body) { run_local(ranks, body); }};

/// The decorator must not change what it decorates.
const Backend recorded{"recorded", [](int ranks, const auto& body) {
                         run_local(ranks, [&](Communicator& world) {
                           RecordingCommunicator recording(world, std::make_shared<Traffic>());
                           body(recording);
                         });
                       }};

INSTANTIATE_TEST_SUITE_P(Local, Conformance, ::testing::Combine(::testing::Values(local, recorded), ::testing::Values(1, 2, 3, 4, 6, 8)),
                         conformance_name);

}  // namespace
}  // namespace shardproof::testing
