#include "harness/recorder.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace shardproof {
namespace {

void record_output(Trace& trace, const std::string& module, const char* slot, const Tensor& value, const Layout& layout) {
  auto& entry = trace.modules[module];
  if (entry.outputs.empty()) trace.order.push_back(module);
  entry.outputs[slot] = value;
  entry.layouts[slot] = layout;
}

}  // namespace

bool is_block(const std::string& module) {
  for (const std::string prefix : {"transformer_blocks.", "single_transformer_blocks."})
    if (module.starts_with(prefix) && module.find('.', prefix.size()) == std::string::npos) return true;
  return module == "time_text_embed" || module == "time_guidance_embed";  // the conditioning vector's
}

void Recorder::input(const std::string& module, const char* slot, Tensor& value, const Layout&) {
  trace_.modules[module].inputs[slot] = value;
}

void Recorder::output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) {
  record_output(trace_, module, slot, value, layout);
}

Forcer::Forcer(const Trace& single, const Placed& placed, int rank, bool blocks)
    : single_(single), placed_(placed), rank_(rank), blocks_(blocks) {}

void Forcer::input(const std::string& module, const char* slot, Tensor& value, const Layout& layout) {
  if (is_block(module) != blocks_) return;
  const Tensor part = placed_.cut(single_.modules.at(module).inputs.at(slot), layout, rank_);
  if (part.sizes() != value.sizes())
    fail_runtime("parity", "{} input {}: rank {} brings {} where {} belong", module, slot, rank_, shape_text(value.sizes()),
                 shape_text(part.sizes()));
  value = part;
}

void Forcer::output(const std::string& module, const char* slot, const Tensor& value, const Layout& layout) {
  if (is_block(module) == blocks_) record_output(trace_, module, slot, value, layout);
}

}  // namespace shardproof
