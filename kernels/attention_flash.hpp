#pragma once

#include "kernels/attention_inputs.hpp"

#include <vector>

/// The two tile loops of `kokkos_flash`, and which one runs. For the sources of this folder and its tests.
namespace shardproof {

/// What multiplies the tiles.
enum class FlashProducts {
  portable,     ///< our own loops: any dtype, any processor, and the only one for fp64
  brgemm_fp32,  ///< LibTorch's brgemm on operands widened to fp32
  brgemm,       ///< LibTorch's brgemm on bf16 or fp16 operands as they are, accumulating in fp32
};

/// What this processor and this LibTorch can run for inputs of a dtype, the fastest first; `portable` is always last.
std::vector<FlashProducts> flash_products(at::ScalarType dtype);

/// kokkos_flash with its products chosen for it: tests and benchmarks compare them. Internal Error from forward when
/// the dtype cannot be run with them.
std::unique_ptr<AttentionBackend> make_kokkos_flash(FlashProducts products);

/// One tile of queries of one head a Kokkos team, over all its keys, tile by tile. The result's dtype is out_BSHD's.
/// Tiles depend on S, T and D alone, so that a head's bits do not depend on what else is in the call.
void flash_attention_portable(const AttentionInputs& inputs, const AttendedKeys& keys, const Attended& result);
void flash_attention_brgemm(const AttentionInputs& inputs, const AttendedKeys& keys, const Attended& result,
                            FlashProducts products);

/// Whether LibTorch's brgemm multiplies operands of this dtype on this processor; tried once, on small tiles.
bool brgemm_multiplies(at::ScalarType dtype);

}  // namespace shardproof
