#pragma once

#include "core/tensor.hpp"
#include "models/layout.hpp"

#include <string>

namespace shardproof {

/// Sees every module's inputs and outputs while a model runs, by checkpoint name, and may replace an input:
/// that is how a module is run on given activations in place (forced comparison).
/// Modules and slots: any Linear (x → out), `*.attn` (q, k, v → out, attention alone), blocks (image, text and what conditions
/// them → image, text: temb, or FLUX.2's shared image_mod and text_mod or joint_mod), `time_text_embed` (timestep, and
/// FLUX.1's pooled and guidance → temb), `time_guidance_embed` (timestep, guidance → temb).
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void input(const std::string& /*module*/, const char* /*slot*/, Tensor& /*value*/, const Layout& /*layout*/) {}
  virtual void output(const std::string& /*module*/, const char* /*slot*/, const Tensor& /*value*/, const Layout& /*layout*/) {}
};

}  // namespace shardproof
