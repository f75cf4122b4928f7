#include "harness/command.hpp"

namespace shardproof {

void add_selftest(CLI::App&, const Invocation&, Run&) {}

}  // namespace shardproof
