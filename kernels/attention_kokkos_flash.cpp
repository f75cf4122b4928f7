#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/attention_flash.hpp"
#include "kernels/exec.hpp"

#include <algorithm>

namespace shardproof {
namespace {

class KokkosFlash final : public AttentionBackend {
 public:
  explicit KokkosFlash(std::optional<FlashProducts> products = std::nullopt) : products_(products) {}

  std::string_view name() const override { return "kokkos_flash"; }
  AttentionTraits traits() const override { return {.lse = true, .mask = true, .gqa = true}; }

  Attended forward(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                   bool keep_accumulator) override {
    const auto inputs = check_attention(name(), q, k, v, mask);
    ensure_kokkos();
    const Attended result = empty_attended(inputs, keep_accumulator);
    if (result.out_BSHD.numel() == 0) return result;
    const auto products = choose(inputs.dtype());
    if (products == FlashProducts::portable)
      flash_attention_portable(inputs, attended_keys(inputs), result);
    else
      flash_attention_brgemm(inputs, attended_keys(inputs), result, products);
    return result;
  }

 private:
  FlashProducts choose(at::ScalarType dtype) const {
    const auto possible = flash_products(dtype);
    if (!products_) return possible.front();
    if (std::find(possible.begin(), possible.end(), *products_) == possible.end())
      fail_runtime(name(), "these products do not run for {} on this processor", dtype_name(dtype));
    return *products_;
  }

  std::optional<FlashProducts> products_;
};

}  // namespace

std::vector<FlashProducts> flash_products(at::ScalarType dtype) {
  std::vector<FlashProducts> possible;
  if (brgemm_multiplies(dtype)) possible.push_back(FlashProducts::brgemm);
  if (dtype != at::kFloat && dtype != at::kDouble && brgemm_multiplies(at::kFloat))
    possible.push_back(FlashProducts::brgemm_fp32);
  possible.push_back(FlashProducts::portable);
  return possible;
}

std::unique_ptr<AttentionBackend> make_kokkos_flash() { return std::make_unique<KokkosFlash>(); }
std::unique_ptr<AttentionBackend> make_kokkos_flash(FlashProducts products) { return std::make_unique<KokkosFlash>(products); }

}  // namespace shardproof
