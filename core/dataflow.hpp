#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace shardproof {

/// The steps of a model as far as tensor parallelism can see them: what happens to the features (the last dim) of each
/// activation. A native model describes its blocks in these; the graph of an exported model is lowered to them.
namespace flow {

/// What a region is given, whole on every rank. [.., width]
struct Input {
  int64_t width;
};
/// [.., in] → [.., out]. `stored_rows` and `stored_columns`: fused blocks that the model stores with the Linear, in
/// elements (diffusers' `_tp_packed_col_blocks` and `_tp_packed_row_blocks`); empty where it stores none.
struct Linear {
  std::string module;
  int64_t out_features, in_features;
  bool bias = true;
  std::vector<int64_t> stored_rows = {}, stored_columns = {};
};
/// Over the last dim: all features, or one head's where the value is split into heads. `module` is empty without a weight.
struct Norm {
  std::string module;
  int64_t width;
};
/// [.., sum of sizes] → several values. The running model cuts what a rank holds in these proportions.
struct Split {
  std::vector<int64_t> sizes;
};
struct Concat {};       ///< along the features
struct JoinTokens {};   ///< along the tokens; all parts have the same features
struct SliceTokens {};  ///< some of the tokens
/// [.., H * D] → [.., H, D]; the number of heads follows from what the rank holds.
struct Heads {
  int64_t head_dim;
};
struct MergeHeads {};  ///< and back
/// On each element (or each head's features, as RoPE). `linear`: f(a) + f(b) = f(a + b), so it may act on a partial sum.
struct Unary {
  std::string name;
  bool linear = false;
};
/// Elementwise, tokens broadcast: a residual, a gate, a modulation, gate × up. A width of 1 goes with any other.
struct Add {};
struct Multiply {};
/// q, k, v in heads → q's shape; fewer K/V heads than query heads are allowed.
struct Attention {
  std::string module;
};
/// Sum over the features of a product, [.., C], [.., C] → [.., 1]: of shards, a partial sum.
struct Contract {};
/// What leaves the region; it must be whole on every rank.
struct Output {
  std::string name;
};

using Kind = std::variant<Input, Linear, Norm, Split, Concat, JoinTokens, SliceTokens, Heads, MergeHeads, Unary, Add, Multiply,
                          Attention, Contract, Output>;
using Value = std::string;

struct Op {
  Kind kind;
  std::vector<Value> in, out;
  std::string label;  ///< what it is in the model's terms, for messages: "the gate of the attention's residual"
};

}  // namespace flow

/// A run of steps whose inputs and outputs are whole on every rank: a kind of block, or what lies before or after the blocks.
struct Region {
  std::string name;           ///< "transformer_blocks.{i}", "{i}" standing for 0 … count-1; the model itself: ""
  int64_t count = 1;          ///< how often it runs
  std::vector<flow::Op> ops;  ///< each value is made once, before it is used; module names are relative to `name`
};

struct Dataflow {
  std::vector<Region> regions;
  std::vector<std::string> sequentials;  ///< numbered containers that are no ModuleList, with "{i}" as in regions
};

/// "transformer_blocks.{i}" + "attn.to_q" → "transformer_blocks.3.attn.to_q".
std::string module_name(const Region& region, const std::string& module, int64_t index);

/// The same for all blocks of the region, as a plan's key: "transformer_blocks.*.attn.to_q".
std::string module_glob(const Region& region, const std::string& module);

/// Features of every value of a region. Input Error "[dataflow] …" that names the region and the step on a value that is
/// missing or made twice, or on widths that do not fit.
std::map<flow::Value, int64_t> feature_widths(const Region& region);

/// Every parameter's shape by name: weights and biases of Linears, weights of norms.
std::map<std::string, std::vector<int64_t>> parameters(const Dataflow& dataflow);

}  // namespace shardproof
