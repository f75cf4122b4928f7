#include "models/checkpoint.hpp"

#include "core/hash.hpp"

#include <algorithm>
#include <set>

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view subsystem = "checkpoint";
constexpr std::string_view single_name = "diffusion_pytorch_model.safetensors";
constexpr std::string_view index_name = "diffusion_pytorch_model.safetensors.index.json";
/// 100 times the index of the largest model that diffusers loads; its parse compares each key with each other.
constexpr uint64_t max_index = 16ULL << 20;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string joined(const std::vector<std::string>& names) {
  constexpr size_t limit = 8;
  const auto shown = std::min(names.size(), limit);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (names.size() > limit) text += fmt::format(" and {} more", names.size() - limit);
  return text;
}

/// What the folder holds in place of the files that are looked for.
std::string weights_found(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt" ||
        extension == ".flashpack")
      found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? "no weight files" : joined(found);
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  const auto status = fs::status(folder, error);
  if (!fs::exists(status)) fail_input(subsystem, "{}: there is no such folder", folder.string());
  if (!fs::is_directory(status))
    fail_input(subsystem, "{}: is not a folder; accepted: a model folder with config.json and {}", folder.string(), single_name);
  if (is_file(folder / "config.json")) return;
  if (is_file(folder / "model_index.json"))
    fail_input(subsystem, "{}: is a pipeline folder; accepted: its model folder, e.g. {}", folder.string(),
               (folder / "transformer").string());
  fail_input(subsystem, "{}: has no config.json", folder.string());
}

/// Weights that would silently not be used, or are not a model's: each is refused with what to do instead.
void check_companions(const fs::path& folder) {
  for (const char* adapter : {"adapter_config.json", "adapter_model.safetensors", "pytorch_lora_weights.safetensors", "pytorch_lora_weights.bin"})
    if (is_file(folder / adapter))
      fail_input(subsystem, "{}: holds a LoRA adapter ({}), which is not applied; accepted: a folder whose adapter was fused into its weights",
                 folder.string(), adapter);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tp-") && name.ends_with(".safetensors"))
      fail_input(subsystem, "{}: holds the shards of a tensor-parallel run ({}): it cannot be sharded again; accepted: the gathered checkpoint",
                 folder.string(), name);
    if (name.ends_with(".flashpack"))
      fail_input(subsystem, "{}: holds flashpack weights ({}); accepted: safetensors files", folder.string(), name);
  }
}

/// Adapter tensors inside a checkpoint, whatever the file is called.
void check_adapter_tensors(const fs::path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names)
    for (const char* mark : {".lora_A.", ".lora_B.", ".lora_up.", ".lora_down.", ".lora.up.", ".lora.down."})
      if (name.find(mark) != std::string::npos)
        fail_input(subsystem, "{}: tensor {} belongs to a LoRA adapter, which is not applied; accepted: fused weights", folder.string(), quoted_name(name));
}

/// The index's weight_map, tensor name to file name, with file names checked to be plain names (as diffusers does).
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  std::error_code error;
  const auto size = fs::file_size(index, error);
  if (error) fail_input(subsystem, "{}: cannot be read: {}", index.string(), error.message());
  if (size > max_index) fail_input(subsystem, "{}: {} bytes, at most {} are accepted", index.string(), size, max_index);
  const Json json = read_json(index);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty())
    fail_input(subsystem, "{}: has no \"weight_map\", an object of tensor names and file names", index.string());
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : map->items()) {
    if (!value.is_string())
      fail_input(subsystem, "{}: weight_map: {} is not given a file name", index.string(), quoted_name(name));
    const auto file = value.get<std::string>();
    if (file.empty() || file == "." || file == ".." || file.find_first_of("/\\") != std::string::npos ||
        file.find('\0') != std::string::npos)
      fail_input(subsystem, "{}: weight_map: {} is given the file name {}; accepted: a file of the same folder", index.string(),
                 quoted_name(name), quoted_name(file));
    if (!file.ends_with(".safetensors"))
      fail_input(subsystem, "{}: weight_map: {} is given the file {}; accepted: safetensors files", index.string(),
                 quoted_name(name), quoted_name(file));
    files[name] = file;
  }
  return files;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  check_folder(folder);
  check_companions(folder);
  config_ = read_json(folder / "config.json");
  if (!config_.is_object()) fail_input(subsystem, "{}: is not a JSON object", config_source());
  if (is_file(folder / index_name)) {
    open_sharded(folder / index_name);
  } else if (is_file(folder / single_name)) {
    open_single(folder / single_name);
  } else {
    fail_input(subsystem, "{}: neither {} nor {} is there (found: {}); only safetensors files without a variant are read",
               folder.string(), single_name, index_name, weights_found(folder));
  }
  check_adapter_tensors(folder, names());
}

std::string Checkpoint::config_source() const { return (folder_ / "config.json").string(); }

void Checkpoint::open_single(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& [name, info] : files_.back()->tensors()) owner_[name] = files_.back().get();
}

void Checkpoint::open_sharded(const fs::path& index) {
  const auto weight_map = read_weight_map(index);
  std::map<std::string, std::vector<std::string>> tensors_of;
  for (const auto& [name, file] : weight_map) tensors_of[file].push_back(name);

  std::vector<std::string> missing;
  for (const auto& [file, tensors] : tensors_of)
    if (!is_file(folder_ / file)) missing.push_back(file);
  if (!missing.empty())
    fail_input(subsystem, "{}: {} of {} files that {} names are missing: {} (is the download complete?)", folder_.string(),
               missing.size(), tensors_of.size(), index_name, joined(missing));

  for (const auto& [file, tensors] : tensors_of) {
    files_.push_back(std::make_unique<SafetensorsFile>(folder_ / file));
    const auto& held = files_.back()->tensors();
    std::vector<std::string> absent, surplus;
    for (const auto& name : tensors)
      if (held.contains(name))
        owner_[name] = files_.back().get();
      else
        absent.push_back(quoted_name(name));
    for (const auto& [name, info] : held)
      if (!std::binary_search(tensors.begin(), tensors.end(), name)) surplus.push_back(quoted_name(name));
    if (!absent.empty())
      fail_input(subsystem, "{}: lacks {} tensors that the index looks for in it: {}", files_.back()->path().string(),
                 absent.size(), joined(absent));
    if (!surplus.empty())
      fail_input(subsystem, "{}: holds {} tensors that the index does not list for it: {}", files_.back()->path().string(),
                 surplus.size(), joined(surplus));
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : owner_) names.push_back(name);
  return names;
}

const TensorInfo* Checkpoint::find(const std::string& name) const {
  const auto found = owner_.find(name);
  return found == owner_.end() ? nullptr : &found->second->tensors().at(name);
}

Tensor Checkpoint::read(const std::string& name, const Slice& slice) {
  const auto found = owner_.find(name);
  if (found == owner_.end()) fail_input(subsystem, "{}: has no tensor {}", folder_.string(), quoted_name(name));
  return found->second->read(name, slice);
}

int64_t Checkpoint::bytes_read() const {
  int64_t bytes = 0;
  for (const auto& file : files_) bytes += file->bytes_read();
  return bytes;
}

std::string Checkpoint::hash() const {
  if (hash_.empty()) {
    uint64_t state = hash_text("");
    for (const auto& file : files_) state = file->hash(hash_text(file->path().filename().string(), state));
    hash_ = hash_hex(state);
  }
  return hash_;
}

}  // namespace shardproof
