#pragma once

#include "core/model_config.hpp"
#include "core/named_tensors.hpp"
#include "reference/attention.hpp"
#include "reference/operations.hpp"

#include <string>

namespace shardproof::reference {

/// Qwen-Image on one device in plain ATen: the oracle. It shares no code with `kernels/` or `models/`.
/// It computes in the dtype of its weights; fp64 is the truth. Blocks and modules can be called one by one,
/// for comparisons in which every module gets the same inputs.
/// Shapes: B batch, S image tokens, T text tokens, C = heads * head_dim, D head_dim.
class QwenImage {
 public:
  /// `weights` by diffusers' parameter names.
  QwenImage(QwenImageConfig config, NamedTensors weights);

  /// Predicted velocity [B, S, patch_size² * out_channels]. Inputs by diffusers' argument names, with positions img_ids [S, 3]
  /// and txt_ids [T, 3] in place of img_shapes; of these `encoder_hidden_states_mask` (bool [B, T], true = attend) may be
  /// absent. A mask hides keys and moves no position, as in diffusers.
  Tensor forward(const NamedTensors& inputs) const;

  /// `latents` [B, S, in_channels] after all flow-match Euler steps; `timestep` is replaced by each sigma.
  Tensor denoise(const NamedTensors& inputs, int64_t steps) const;

  /// Runs one module by its checkpoint name on named inputs and returns its named outputs:
  /// any Linear (x → out), `*.attn` (q, k, v → out: attention alone), `transformer_blocks.N` (image, text, temb,
  /// ids [T + S, 3] → image, text), `time_text_embed` (timestep → temb). Attention and blocks also take `key_mask`
  /// (bool [B, T + S]), which may be absent.
  NamedTensors run_module(const std::string& name, const NamedTensors& inputs) const;

 private:
  struct Streams {
    Tensor image_BSC, text_BTC;
  };
  Tensor feed_forward(const std::string& name, const Tensor& x) const;
  Tensor heads_of(const std::string& linear_name, const std::string& norm_name, const Tensor& x) const;
  Tensor time_text_embed(const Tensor& timestep) const;
  Rope rotation(const Tensor& ids) const;
  Streams block(const std::string& name, Streams x, const Tensor& temb, const Rope& rope, const KeyMask& mask) const;

  QwenImageConfig config_;
  Weights weights_;
};

}  // namespace shardproof::reference
