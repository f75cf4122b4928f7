#pragma once

#include "core/plan_json.hpp"
#include "models/flux1_dataflow.hpp"
#include "models/flux2_dataflow.hpp"
#include "models/qwen_image_dataflow.hpp"
#include "strategies/plan_check.hpp"

#include <string>
#include <vector>

namespace shardproof::test {

/// A model at its real size with the plan that diffusers 0.42.1 ships, typed in as diffusers has it.
struct PlanSubject {
  std::string name;
  Dataflow dataflow;
  PlanEntries plan;
};

inline PlanSubject plan_subject(std::string name, Dataflow dataflow, const std::string& plan) {
  PlanEntries entries = with_stored_blocks(parse_plan(parse_json(plan, name), name), dataflow);
  return {std::move(name), std::move(dataflow), std::move(entries)};
}

inline const std::string joint_attention_plan = R"(
  "transformer_blocks.*.attn.to_q": "colwise", "transformer_blocks.*.attn.to_k": "colwise",
  "transformer_blocks.*.attn.to_v": "colwise", "transformer_blocks.*.attn.to_out.0": "rowwise",
  "transformer_blocks.*.attn.add_q_proj": "colwise", "transformer_blocks.*.attn.add_k_proj": "colwise",
  "transformer_blocks.*.attn.add_v_proj": "colwise", "transformer_blocks.*.attn.to_add_out": "rowwise",)";

inline PlanSubject flux1() {
  return plan_subject("flux1", flux1_dataflow(flux1_preset("flux1-dev")), "{" + joint_attention_plan + R"(
    "transformer_blocks.*.ff.net.0.proj": "colwise", "transformer_blocks.*.ff.net.2": "rowwise",
    "transformer_blocks.*.ff_context.net.0.proj": "colwise", "transformer_blocks.*.ff_context.net.2": "rowwise",
    "single_transformer_blocks.*.attn.to_q": "colwise", "single_transformer_blocks.*.attn.to_k": "colwise",
    "single_transformer_blocks.*.attn.to_v": "colwise", "single_transformer_blocks.*.proj_mlp": "colwise",
    "single_transformer_blocks.*.proj_out": {"style": "packed_rowwise", "blocks": "stored"}})");
}

inline PlanSubject flux2() {
  return plan_subject("flux2", flux2_dataflow({}), "{" + joint_attention_plan + R"(
    "transformer_blocks.*.ff.linear_in": {"style": "packed_colwise", "blocks": [1, 1]}, "transformer_blocks.*.ff.linear_out": "rowwise",
    "transformer_blocks.*.ff_context.linear_in": {"style": "packed_colwise", "blocks": [1, 1]},
    "transformer_blocks.*.ff_context.linear_out": "rowwise",
    "single_transformer_blocks.*.attn.to_qkv_mlp_proj": {"style": "packed_colwise", "blocks": "stored"},
    "single_transformer_blocks.*.attn.to_out": {"style": "packed_rowwise"}})");
}

inline PlanSubject qwen_image() {
  return plan_subject("qwen-image", qwen_image_dataflow({}), "{" + joint_attention_plan + R"(
    "transformer_blocks.*.img_mlp.net.0.proj": "colwise", "transformer_blocks.*.img_mlp.net.2": "rowwise",
    "transformer_blocks.*.txt_mlp.net.0.proj": "colwise", "transformer_blocks.*.txt_mlp.net.2": "rowwise"})");
}

inline const std::vector<PlanSubject>& plan_subjects() {
  static const std::vector<PlanSubject> all{flux1(), flux2(), qwen_image()};
  return all;
}

inline const PlanSubject& plan_subject(const std::string& name) {
  for (const PlanSubject& subject : plan_subjects())
    if (subject.name == name) return subject;
  throw std::runtime_error("no model " + name);
}

/// All faults, one a line.
inline std::string faults_text(const PlanReport& report) {
  std::string text;
  for (const PlanFault& fault : report.faults) text += fault_text(fault) + "\n";
  return text;
}

}  // namespace shardproof::test
