#include "reference/qwen_image.hpp"

#include "tests/support/stored_oracle.hpp"

namespace shardproof {
namespace {

reference::QwenImage make(const test::StoredOracle& stored) {
  return {parse_qwen_image_config(stored.config, "config.json"), stored.weights};
}

TEST(ReferenceQwenImage, AgreesWithDiffusers) { test::expect_agreement_with_diffusers("qwen-image", make, 1e-5); }

/// Nothing reads the text after the last block: what only the text's own output there needs is without effect.
TEST(ReferenceQwenImage, EveryParameterAndInputMatters) {
  const std::string last = "transformer_blocks.1.";
  test::expect_everything_to_matter(
      "qwen-image", make, {last + "attn.add_q_proj", last + "attn.norm_added_q", last + "attn.to_add_out", last + "txt_mlp"});
}

/// Attention sees differences of positions only: the same shift of text and image changes nothing, of one of them it does.
TEST(ReferenceQwenImage, RotationsAreRelative) {
  const test::StoredOracle stored = test::read_oracle("qwen-image", at::kDouble);
  const auto model = make(stored);
  const Tensor output = model.forward(stored.inputs);
  NamedTensors shifted = stored.inputs;
  shifted["txt_ids"] = shifted.at("txt_ids") + 5;
  EXPECT_GT(test::relative_l2(model.forward(shifted), output), 1e-4);
  shifted["img_ids"] = shifted.at("img_ids") + 5;
  EXPECT_LE(test::relative_l2(model.forward(shifted), output), 1e-12);
}

}  // namespace
}  // namespace shardproof
