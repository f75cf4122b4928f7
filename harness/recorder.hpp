#pragma once

#include "core/named_tensors.hpp"
#include "harness/placed.hpp"
#include "models/probe.hpp"

#include <map>
#include <string>
#include <vector>

namespace shardproof {

/// What one module took and gave, whole or one rank's part of it.
struct ModuleTrace {
  NamedTensors inputs, outputs;
  std::map<std::string, Layout> layouts;  ///< of outputs, by slot
};

/// Modules in the order in which they finished, with their traces.
struct Trace {
  std::vector<std::string> order;
  std::map<std::string, ModuleTrace> modules;
};

/// Blocks hold other modules; attention and Linears do not.
bool is_block(const std::string& module);

/// Records everything.
class Recorder final : public Probe {
 public:
  const Trace& trace() const { return trace_; }
  void input(const std::string& module, const char* slot, Tensor& value, const Layout& layout) override;
  void output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) override;

 private:
  Trace trace_;
};

/// Gives every module of one kind (blocks, or the modules inside them) the single device's inputs in place of its own, cut
/// to this rank, and records its outputs.
class Forcer final : public Probe {
 public:
  /// `single` and `placed` outlive the probe.
  Forcer(const Trace& single, const Placed& placed, int rank, bool blocks);
  const Trace& trace() const { return trace_; }
  void input(const std::string& module, const char* slot, Tensor& value, const Layout& layout) override;
  void output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) override;

 private:
  const Trace& single_;
  const Placed& placed_;
  int rank_;
  bool blocks_;
  Trace trace_;
};

}  // namespace shardproof
