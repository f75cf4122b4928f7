#include "strategies/sharded_save.hpp"

#include "core/error.hpp"
#include "models/safetensors_writer.hpp"

#include <fstream>

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr const char* weights_name = "diffusion_pytorch_model.safetensors";

std::string shard_name(int tp, int tp_rank) { return fmt::format("tp-{}-of-{}.safetensors", tp_rank, tp); }

/// Whether this rank is the one of its tp coordinate that writes.
bool first_of_its_kind(const Mesh& mesh) {
  for (const auto& [axis, degree] : mesh.shape().degrees())
    if (axis != Axis::tp && mesh.coordinate(axis) != 0) return false;
  return true;
}

/// Makes the folder and looks into it on rank 0; every rank learns of it and fails alike.
void prepare(const Session& session, const Json& config, const fs::path& folder) {
  Communicator& world = session.mesh().world();
  std::string problem;
  if (world.rank() == 0) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      problem = error.message();
    } else {
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".safetensors") problem = fmt::format("already holds {}", entry.path().filename().string());
      if (problem.empty() && !(std::ofstream(folder / "config.json") << config.dump(2) << "\n")) problem = "config.json cannot be written";
    }
  }
  if (world.exchange({problem.empty() ? 0 : 1})[0][0] != 0)
    fail_input("save", "{}: {}; accepted: a folder without weights that can be written to", folder.string(), problem.empty() ? "rank 0 cannot use it" : problem);
}

/// The whole parameter from all ranks' slices, on every rank of the tp group.
Tensor gathered(const HeldParameter& held, Communicator& tp) {
  if (held.slice.ranges.empty() || tp.size() == 1) return held.tensor;
  const Tensor parts = tp.all_gather(held.tensor);
  Tensor whole = at::empty(held.shape, held.tensor.options());
  for (int rank = 0; rank < tp.size(); ++rank) {
    int64_t taken = 0;
    for (const Range& range : held.slices_by_rank[rank].ranges) {
      whole.narrow(held.slice.dim, range.begin, range.size).copy_(parts[rank].narrow(held.slice.dim, taken, range.size));
      taken += range.size;
    }
  }
  return whole;
}

std::string ranges_text(const Slice& slice) {
  std::string text = std::to_string(slice.dim);
  for (const Range& range : slice.ranges) text += fmt::format(" {}+{}", range.begin, range.size);
  return slice.ranges.empty() ? "whole" : text;
}

/// One file of one rank's slices.
class ShardFile final : public WeightSource {
 public:
  ShardFile(const fs::path& file, int tp, int tp_rank) : file_(file) {
    for (const auto& [name, stored] : file_.tensors()) {
      const auto shape = file_.metadata().find("shape " + name), slice = file_.metadata().find("slice " + name);
      if (shape == file_.metadata().end() || slice == file_.metadata().end())
        fail_input("shard", "{}: tensor \"{}\" does not say what it is a slice of; accepted: files of rank {} of tp {} as save_shards writes them",
                   file.string(), name, tp_rank, tp);
      const Json dims = parse_json(shape->second, file.string());
      infos_[name] = {stored.dtype, dims.get<std::vector<int64_t>>()};
      slices_[name] = slice->second;
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, info] : infos_) all.push_back(name);
    return all;
  }
  const TensorInfo* find(const std::string& name) const override {
    const auto found = infos_.find(name);
    return found == infos_.end() ? nullptr : &found->second;
  }
  Tensor read(const std::string& name, const Slice& slice) override {
    if (!slices_.count(name)) fail_input("shard", "{}: has no tensor \"{}\"", file_.path().string(), name);
    if (slices_.at(name) != ranges_text(slice))
      fail_input("shard", "{}: tensor \"{}\" was saved as slice {}, the plan asks for {}; accepted: the plan and degree it was saved with",
                 file_.path().string(), name, slices_.at(name), ranges_text(slice));
    return file_.read(name);
  }
  int64_t bytes_read() const override { return file_.bytes_read(); }
  std::string hash() const override { return fmt::format("{:016x}", file_.hash(0)); }

 private:
  SafetensorsFile file_;
  std::map<std::string, TensorInfo> infos_;
  std::map<std::string, std::string> slices_;
};

}  // namespace

void save_gathered(const Session& session, const Json& config, const fs::path& folder) {
  prepare(session, config, folder);
  const Mesh& mesh = session.mesh();
  std::map<std::string, TensorInfo> infos;
  for (const auto& [name, held] : session.parameters()) infos[name] = {held.tensor.scalar_type(), held.shape};
  std::unique_ptr<SafetensorsWriter> writer;
  if (mesh.world().rank() == 0) writer = std::make_unique<SafetensorsWriter>(folder / weights_name, infos, std::map<std::string, std::string>{{"format", "pt"}});
  for (const auto& [name, held] : session.parameters()) {
    const Tensor whole = gathered(held, mesh.axis(Axis::tp));
    if (writer) writer->write(name, whole);
  }
  if (writer) writer->finish();
  mesh.world().barrier();
}

void save_shards(const Session& session, const Json& config, const fs::path& folder) {
  prepare(session, config, folder);
  const Mesh& mesh = session.mesh();
  const int tp = mesh.axis(Axis::tp).size(), tp_rank = mesh.coordinate(Axis::tp);
  if (first_of_its_kind(mesh)) {
    std::map<std::string, TensorInfo> infos;
    std::map<std::string, std::string> metadata;
    for (const auto& [name, held] : session.parameters()) {
      infos[name] = {held.tensor.scalar_type(), held.tensor.sizes().vec()};
      metadata["shape " + name] = Json(held.shape).dump();
      metadata["slice " + name] = ranges_text(held.slice);
    }
    SafetensorsWriter writer(folder / shard_name(tp, tp_rank), infos, metadata);
    for (const auto& [name, held] : session.parameters()) writer.write(name, held.tensor);
    writer.finish();
  }
  mesh.world().barrier();
}

std::unique_ptr<WeightSource> open_shard(const fs::path& folder, int tp, int tp_rank) {
  const fs::path file = folder / shard_name(tp, tp_rank);
  if (fs::exists(file)) return std::make_unique<ShardFile>(file, tp, tp_rank);
  std::string found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("tp-")) found = entry.path().filename().string();
  fail_input("shard", "{}: has no {}{}; accepted: the degree it was saved at", folder.string(), shard_name(tp, tp_rank),
             found.empty() ? "" : fmt::format(" (it has {})", found));
}

}  // namespace shardproof
