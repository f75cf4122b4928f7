#include "harness/load_rank.hpp"

#include "core/error.hpp"
#include "harness/host_memory.hpp"
#include "harness/memory_probe.hpp"
#include "harness/planned_model.hpp"
#include "models/checkpoint.hpp"
#include "models/full_weights.hpp"
#include "strategies/shard_slices.hpp"
#include "strategies/tp.hpp"

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>

namespace shardproof {
namespace {

struct Share {
  std::map<std::string, Slice> slices;
  std::map<std::string, std::vector<int64_t>> shapes;
};

Share share_of(const LoadRequest& request) {
  const ModelTraits model = load_model_traits(request.folder.string());
  const MeshShape mesh({{Axis::tp, request.tp}});
  if (const auto reason = tp().unsupported(model, {}, mesh)) throw Error(Fault::input, "load", *reason);
  return {rank_slices(model, tp().plan(model, mesh), request.tp, request.tp_rank), model.parameters};
}

/// This rank's tensors, in their stored dtypes.
std::vector<Tensor> read_share(WeightSource& source, const Share& share, const std::function<void(const std::string&)>& done) {
  std::vector<Tensor> tensors;
  for (const auto& [name, slice] : share.slices) {
    require(source, name, share.shapes.at(name));
    tensors.push_back(source.read(name, slice));
    done(name);
  }
  return tensors;
}

}  // namespace

LoadResult load_rank(const LoadRequest& request) {
  const Share share = share_of(request);
  LoadResult result;
  result.anonymous_before = host_memory().anonymous;
  HostPeakSampler sampler;
  MemoryProbe memory;
  const auto start = std::chrono::steady_clock::now();
  std::vector<Tensor> tensors;
  {
    Checkpoint checkpoint(request.folder);
    if (request.full) {
      FullWeights whole(checkpoint, at::ScalarType::Undefined);
      tensors = read_share(whole, share, [&](const std::string& name) { whole.release(name); });
    } else {
      tensors = read_share(checkpoint, share, [](const std::string&) {});
    }
    result.bytes_read = checkpoint.bytes_read();
    for (const auto& [name, slice] : share.slices)
      result.expected += slice_elements(slice, share.shapes.at(name)) * static_cast<int64_t>(c10::elementSize(checkpoint.find(name)->dtype));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const HostMemory peak = sampler.stop();
  for (const Tensor& tensor : tensors) result.held += static_cast<int64_t>(tensor.storage().nbytes());
  result.allocated_peak = memory.peak();
  result.anonymous_peak = peak.anonymous;
  result.file_peak = peak.file;
  result.host_peak = host_peak();
  return result;
}

Json to_json(const LoadResult& r) {
  return {{"seconds", r.seconds},           {"bytes_read", r.bytes_read},
          {"held", r.held},                 {"expected", r.expected},
          {"allocated_peak", r.allocated_peak}, {"anonymous_before", r.anonymous_before},
          {"anonymous_peak", r.anonymous_peak}, {"file_peak", r.file_peak},
          {"host_peak", r.host_peak}};
}

LoadResult parse_load_result(const Json& json) {
  const JsonReader reader(json, "load-rank");
  const auto bytes = [&](const char* key) { return reader.integer(key, std::nullopt, 0, INT64_MAX); };
  return {reader.number("seconds", std::nullopt), bytes("bytes_read"), bytes("held"),      bytes("expected"), bytes("allocated_peak"),
          bytes("anonymous_before"),              bytes("anonymous_peak"), bytes("file_peak"), bytes("host_peak")};
}

LoadResult load_rank_apart(const LoadRequest& request) {
  std::string folder;  // quoted for the shell
  for (const char c : request.folder.string()) folder += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format("'{}' load-rank --folder '{}' --tp {} --rank {}{} 2>&1", program, folder, request.tp, request.tp_rank,
                                          request.full ? " --full" : "");
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) fail_runtime("load", "cannot start {}", program);
  std::string said;
  std::array<char, 4096> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) said.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  while (said.ends_with('\n')) said.pop_back();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_runtime("load", "rank {} of tp {} ended with {}: {}", request.tp_rank, request.tp,
                 WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("status {}", WEXITSTATUS(status)), said);
  return parse_load_result(parse_json(said, "load-rank"));
}

}  // namespace shardproof
