#pragma once

#include "core/named_tensors.hpp"
#include "kernels/attention_backend.hpp"
#include "kernels/rope.hpp"
#include "models/module_source.hpp"
#include "models/probe.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardproof {

/// What transformers over a text and an image stream have in common (MMDiT, Esser et al. 2024). Module names are diffusers'.
/// Shapes: B batch, S image tokens, T text tokens, C hidden, H this rank's heads, D head dim.

struct Streams {
  Tensor image_BSC, text_BTC;
};

struct Heads {
  Tensor q_BSHD, k_BSHD, v_BSHD;
};

/// What all blocks of one forward share.
struct Context {
  RopeTable rope;  ///< of [text ; image]
  std::optional<Tensor> key_mask_BT;
  int64_t heads, head_dim;  ///< of the whole model
  double eps;  ///< of every norm
  AttentionBackend& attention;
  Probe& probe;
};

/// A model's rotations, in at least single precision: `like` is one of its activations.
RopeTable joint_rope(const NamedTensors& inputs, at::IntArrayRef axes_dims, double theta, const Tensor& like);

/// Input Error of `subsystem` that names the input which is missing.
void check_inputs(const std::string& subsystem, const NamedTensors& inputs, std::initializer_list<const char*> needed);
/// … or the guidance that should, or should not, be there.
void check_guidance(const std::string& subsystem, const NamedTensors& inputs, bool takes_guidance);

/// FLUX and Qwen-Image keep half precision finite between blocks; every other dtype has the range.
Tensor finite_in_half(const Tensor& x);

struct TwoLinears {
  ShardedLinear first, second;
};

/// `name`.linear_1 and .linear_2 with SiLU between: [B, in] → [B, hidden].
TwoLinears embedder(ModuleSource& source, const std::string& name, int64_t hidden, int64_t in, bool bias = true);
Tensor embed(const TwoLinears& embedder, const Tensor& x, Probe& probe);

/// `name`.net.0.proj and .net.2, a feed-forward with one activation.
TwoLinears feed_forward(ModuleSource& source, const std::string& name, int64_t hidden, int64_t inner);

/// Shifts, scales and gates [B, C] from the conditioning vector: SiLU, Linear, `parts` equal pieces.
std::vector<Tensor> modulation(const ShardedLinear& linear, int64_t parts, const Tensor& temb_BC, Probe& probe);

/// The projections and norms of one token stream in an attention.
struct Projections {
  ShardedLinear q, k, v;
  Tensor norm_q, norm_k;
};

/// One of the two token streams of a double-stream block.
struct Stream {
  Tokens tokens;
  Projections heads;
  ShardedLinear attention_out;
  TwoLinears feed_forward;
};

/// What goes between the Linears of a feed-forward.
using Activation = Tensor (*)(const Tensor&);

/// The image's projections under `attn`: to_q, to_k, to_v, norm_q, norm_k.
Projections image_projections(ModuleSource& source, const std::string& attn, int64_t hidden, int64_t head_dim, bool bias);
/// The image's stream of `block`, with attn.to_out.0; and the text's: attn.add_q_proj, …, attn.to_add_out.
Stream image_stream(ModuleSource& source, const std::string& block, int64_t hidden, int64_t head_dim, TwoLinears feed_forward,
                    bool bias);
Stream text_stream(ModuleSource& source, const std::string& block, int64_t hidden, int64_t head_dim, TwoLinears feed_forward,
                   bool bias);

/// Queries and keys normed over each head, not yet rotated.
Heads project(const Projections& modules, const Tensor& x, Tokens tokens, const Context& context);

/// Rotates q and k, attends over every rank's tokens, and joins the heads: [B, T + S, H * D]. Module `block`.attn.
Tensor attend(const std::string& block, const Heads& heads, const Context& context);

/// A double-stream block from its modulations (shift, scale, gate of attention, then of the feed-forward): each stream is
/// normed and modulated, both attend jointly, and each goes through its own output and feed-forward.
Streams run_double(const std::string& block, const Stream& image, const Stream& text, const std::vector<Tensor>& image_mod,
                   const std::vector<Tensor>& text_mod, const Streams& x, Activation activation, const Context& context);

/// Shows a block's inputs to the probe, which may replace them: `image`, `text`, and what conditions the block, by slot.
void enter_block(const std::string& block, Streams& x, std::initializer_list<std::pair<const char*, Tensor*>> conditioning,
                 Probe& probe);
Streams leave_block(const std::string& block, const Streams& x, Probe& probe);

}  // namespace shardproof
