#pragma once

#include "core/model_config.hpp"
#include "core/named_tensors.hpp"
#include "reference/attention.hpp"
#include "reference/operations.hpp"

#include <optional>
#include <string>

namespace shardproof::reference {

/// FLUX.2 on one device in plain ATen: the oracle. It shares no code with `kernels/` or `models/`.
/// It computes in the dtype of its weights; fp64 is the truth. Blocks and modules can be called one by one,
/// for comparisons in which every module gets the same inputs.
/// Shapes: B batch, S image tokens, T text tokens, C = heads * head_dim, D head_dim.
class Flux2 {
 public:
  /// `weights` by diffusers' parameter names.
  Flux2(Flux2Config config, NamedTensors weights);

  /// Predicted velocity [B, S, patch_size² * out_channels]. Inputs by diffusers' argument names, ids without a batch dim; of
  /// these `encoder_hidden_states_mask` (bool [B, T], true = attend) may be absent.
  Tensor forward(const NamedTensors& inputs) const;

  /// `latents` [B, S, in_channels] after all flow-match Euler steps; `timestep` is replaced by each sigma.
  Tensor denoise(const NamedTensors& inputs, int64_t steps) const;

  /// Runs one module by its checkpoint name on named inputs and returns its named outputs:
  /// any Linear (x → out), `*.attn` (q, k, v → out: attention alone), `transformer_blocks.N` (image, text,
  /// image_mod and text_mod [B, 6 C], ids [T + S, 4] → image, text), `single_transformer_blocks.N` (image, text,
  /// joint_mod [B, 3 C], ids → image, text), `time_guidance_embed` (timestep, guidance if any → temb). Attention and
  /// blocks also take `key_mask` (bool [B, T + S]), which may be absent.
  NamedTensors run_module(const std::string& name, const NamedTensors& inputs) const;

 private:
  struct Streams {
    Tensor image_BSC, text_BTC;
  };
  Tensor feed_forward(const std::string& name, const Tensor& x) const;
  Tensor heads_of(const Tensor& projected) const;
  Tensor normed_heads(const Tensor& projected, const std::string& norm) const;
  Tensor time_guidance_embed(const Tensor& timestep, const std::optional<Tensor>& guidance) const;
  Tensor shared_modulation(const std::string& name, const Tensor& temb) const;
  Rope rotation(const Tensor& ids) const;
  Streams double_block(const std::string& name, Streams x, const Tensor& image_mod, const Tensor& text_mod, const Rope& rope,
                       const KeyMask& mask) const;
  Streams single_block(const std::string& name, const Streams& x, const Tensor& joint_mod, const Rope& rope,
                       const KeyMask& mask) const;

  Flux2Config config_;
  Weights weights_;
};

}  // namespace shardproof::reference
