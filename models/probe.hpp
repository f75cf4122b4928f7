#pragma once

#include "core/tensor.hpp"
#include "models/layout.hpp"

#include <string>

namespace shardproof {

/// Sees every module's inputs and outputs while a model runs, by checkpoint name, and may replace an input:
/// that is how a module is run on given activations in place (forced comparison).
/// Modules and slots: any Linear (x → out), `*.attn` (q, k, v → out, attention alone), blocks (image, text, temb
/// → image, text), `time_text_embed` (timestep, pooled, guidance → temb).
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void input(const std::string& /*module*/, const char* /*slot*/, Tensor& /*value*/, const Layout& /*layout*/) {}
  virtual void output(const std::string& /*module*/, const char* /*slot*/, const Tensor& /*value*/, const Layout& /*layout*/) {}
};

}  // namespace shardproof
