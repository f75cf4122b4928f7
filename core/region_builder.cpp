#include "core/region_builder.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardproof {

RegionBuilder::RegionBuilder(std::string name, int64_t count) : region_{std::move(name), count, {}} {}

flow::Value RegionBuilder::step(flow::Kind kind, std::vector<Value> in, const std::string& label) {
  Value out = fmt::format("%{}", values_++);
  region_.ops.push_back({std::move(kind), std::move(in), {out}, label});
  return out;
}

flow::Value RegionBuilder::input(const std::string& name, int64_t width) {
  return step(flow::Input{width}, {}, "the input " + name);
}

flow::Value RegionBuilder::linear(const Value& x, flow::Linear linear) {
  const std::string label = linear.module;
  return step(std::move(linear), {x}, label);
}

flow::Value RegionBuilder::norm(const Value& x, const std::string& module, int64_t width) {
  return step(flow::Norm{module, width}, {x}, module.empty() ? "a norm" : module);
}

std::vector<flow::Value> RegionBuilder::split(const Value& x, const std::vector<int64_t>& sizes, const std::string& label) {
  std::vector<Value> out;
  for (size_t i = 0; i < sizes.size(); ++i) out.push_back(fmt::format("%{}", values_++));
  region_.ops.push_back({flow::Split{sizes}, {x}, out, label});
  return out;
}

flow::Value RegionBuilder::concat(const std::vector<Value>& parts, const std::string& label) {
  return step(flow::Concat{}, parts, label);
}
flow::Value RegionBuilder::join_tokens(const std::vector<Value>& parts, const std::string& label) {
  return step(flow::JoinTokens{}, parts, label);
}
flow::Value RegionBuilder::slice_tokens(const Value& x, const std::string& label) {
  return step(flow::SliceTokens{}, {x}, label);
}
flow::Value RegionBuilder::heads(const Value& x, int64_t head_dim) {
  return step(flow::Heads{head_dim}, {x}, "the reshape to heads");
}
flow::Value RegionBuilder::merge_heads(const Value& x) { return step(flow::MergeHeads{}, {x}, "the heads' merge"); }
flow::Value RegionBuilder::unary(const Value& x, const std::string& name) { return step(flow::Unary{name, false}, {x}, name); }
flow::Value RegionBuilder::linear_unary(const Value& x, const std::string& name) {
  return step(flow::Unary{name, true}, {x}, name);
}
flow::Value RegionBuilder::add(const Value& a, const Value& b, const std::string& label) {
  return step(flow::Add{}, {a, b}, label);
}
flow::Value RegionBuilder::multiply(const Value& a, const Value& b, const std::string& label) {
  return step(flow::Multiply{}, {a, b}, label);
}
flow::Value RegionBuilder::contract(const Value& a, const Value& b, const std::string& label) {
  return step(flow::Contract{}, {a, b}, label);
}

flow::Value RegionBuilder::attention(const Value& q, const Value& k, const Value& v, const std::string& module) {
  return step(flow::Attention{module}, {q, k, v}, module);
}

void RegionBuilder::output(const Value& x, const std::string& name) {
  region_.ops.push_back({flow::Output{name}, {x}, {}, "the output " + name});
}

flow::Value RegionBuilder::modulate(const Value& x, const Value& scale, const Value& shift, const std::string& of) {
  return add(multiply(x, unary(scale, "1 + scale"), "the modulation of " + of), shift, "the modulation of " + of);
}

flow::Value RegionBuilder::gated_residual(const Value& x, const Value& gate, const Value& update, const std::string& of) {
  return add(x, multiply(gate, update, "the gate of " + of), "the residual of " + of);
}

Region RegionBuilder::build() {
  feature_widths(region_);
  return std::move(region_);
}

flow::Value embed(RegionBuilder& region, const flow::Value& x, const std::string& module, int64_t in, int64_t out, bool bias) {
  const auto hidden = region.unary(region.linear(x, {module + ".linear_1", out, in, bias}), "silu");
  return region.linear(hidden, {module + ".linear_2", out, out, bias});
}

}  // namespace shardproof
