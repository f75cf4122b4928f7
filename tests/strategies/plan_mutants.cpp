#include "tests/strategies/plan_mutants.hpp"

namespace shardproof::test {
namespace {

const std::string two = "transformer_blocks.*.", one = "single_transformer_blocks.*.";

class Mutants {
 public:
  std::vector<PlanMutant> list;

  void of(const PlanSubject& model) { model_ = &model; }

  /// One entry set to something else.
  void set(const std::string& key, Sharding style, bool restores = true) {
    PlanMutant& mutant = add(key + " is " + sharding_text(style), {key});
    mutant.plan[key] = std::move(style);
    mutant.restores = restores;
  }
  void without(const std::string& key) { add("no " + key, {key}).plan.erase(key); }
  /// An entry under a wrong name; `named` is what must be proposed.
  void renamed(const std::string& key, const std::string& wrong) {
    PlanMutant& mutant = add(key + " written as " + wrong, {wrong});
    mutant.plan.erase(key);
    mutant.plan[wrong] = model_->plan.at(key);
  }
  void swapped(const std::vector<std::string>& in, const std::string& out) {
    PlanMutant& mutant = add(in.front() + " and " + out + " swapped", in);
    mutant.keys.push_back(out);
    std::vector<int64_t> columns = std::get<Rowwise>(model_->plan.at(out)).blocks,
                         rows = std::get<Colwise>(model_->plan.at(in.front())).blocks;
    for (const auto& key : in) mutant.plan[key] = Rowwise{rows, false};
    mutant.plan[out] = Colwise{columns};
  }

 private:
  PlanMutant& add(const std::string& name, std::vector<std::string> keys) {
    list.push_back({model_->name, model_->name + ": " + name, model_->plan, std::move(keys), true});
    return list.back();
  }
  const PlanSubject* model_ = nullptr;
};

void in_every_model(Mutants& mutants, const PlanSubject& model) {
  mutants.of(model);
  const std::string attn = two + "attn.";
  for (const char* in : {"to_q", "to_k", "to_v"}) mutants.swapped({attn + in}, attn + "to_out.0");
  for (const char* in : {"add_q_proj", "add_k_proj", "add_v_proj"}) mutants.swapped({attn + in}, attn + "to_add_out");
  mutants.swapped({attn + "to_q", attn + "to_k", attn + "to_v"}, attn + "to_out.0");
  mutants.swapped({attn + "add_q_proj", attn + "add_k_proj", attn + "add_v_proj"}, attn + "to_add_out");
  for (const auto& [key, style] : model.plan) mutants.without(key);
  for (const char* norm : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"}) mutants.set(attn + norm, Colwise{});
  mutants.set(attn + "to_out.0", Rowwise{{}, true});  // its input is sharded already
  mutants.set("proj_out", Colwise{}, false);          // changes the output's shape
  mutants.set("norm_out.linear", Colwise{}, false);
  mutants.set("norm_out.linear", Rowwise{}, false);
  mutants.renamed(attn + "to_q", attn + "to_qq");
  mutants.renamed(attn + "to_q", "model." + attn + "to_q");
  mutants.renamed(attn + "to_q", "transformer_blocks.attn.to_q");
  mutants.renamed(attn + "to_out.0", attn + "to_out.*");
  mutants.renamed(attn + "to_out.0", attn + "to_out");
}

void modulations(Mutants& mutants, const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    mutants.set(key, Colwise{}, false);
    mutants.set(key, Rowwise{}, false);
  }
}

}  // namespace

std::vector<PlanMutant> plan_mutants() {
  Mutants mutants;
  for (const PlanSubject& model : plan_subjects()) in_every_model(mutants, model);

  mutants.of(plan_subject("flux1"));
  for (const std::string ff : {"ff", "ff_context"}) mutants.swapped({two + ff + ".net.0.proj"}, two + ff + ".net.2");
  mutants.swapped({one + "attn.to_q", one + "attn.to_k", one + "attn.to_v", one + "proj_mlp"}, one + "proj_out");
  mutants.set(one + "proj_out", Rowwise{});
  for (const std::vector<int64_t>& blocks : {std::vector<int64_t>{4, 1}, {1, 1}, {2, 3}, {1, 1, 3}})
    mutants.set(one + "proj_out", Rowwise{blocks, false});
  modulations(mutants, {two + "norm1.linear", two + "norm1_context.linear", one + "norm.linear"});

  mutants.of(plan_subject("flux2"));
  const std::string fused = one + "attn.to_qkv_mlp_proj", out = one + "attn.to_out";
  for (const std::string ff : {"ff", "ff_context"}) {
    mutants.swapped({two + ff + ".linear_in"}, two + ff + ".linear_out");
    mutants.set(two + ff + ".linear_in", Colwise{});
    mutants.set(two + ff + ".linear_in", Colwise{{1, 3}});
  }
  mutants.swapped({fused}, out);
  for (const std::vector<int64_t>& blocks :
       {std::vector<int64_t>{}, {1, 1, 1, 6}, {3, 6}, {3, 3, 1, 1, 1}, {1, 3, 1, 1, 3}, {1, 1, 1, 2, 4}, {1, 1, 1, 3, 4}})
    mutants.set(fused, Colwise{blocks});
  for (const std::vector<int64_t>& blocks : {std::vector<int64_t>{}, {3, 1}, {1, 1}, {1, 2}})
    mutants.set(out, Rowwise{blocks, false});
  modulations(mutants,
              {"double_stream_modulation_img.linear", "double_stream_modulation_txt.linear", "single_stream_modulation.linear"});

  mutants.of(plan_subject("qwen-image"));
  for (const std::string mlp : {"img_mlp", "txt_mlp"}) mutants.swapped({two + mlp + ".net.0.proj"}, two + mlp + ".net.2");
  modulations(mutants, {two + "img_mod.1", two + "txt_mod.1"});
  return std::move(mutants.list);
}

}  // namespace shardproof::test
