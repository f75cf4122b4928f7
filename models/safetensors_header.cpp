#include "models/safetensors_header.hpp"

#include "core/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace shardproof {
namespace {

constexpr std::string_view subsystem = "safetensors";

/// All types of safetensors 0.8.0.
constexpr std::array<StoredType, 22> stored_types{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

/// serde_json, which safetensors reads with, refuses the 128th level.
constexpr int max_depth = 127;

/// LibTorch's operations go no further, and a header of shapes alone would take nine times its size in memory.
constexpr size_t max_dimensions = 64;

/// The text on one line, without control characters, cut when long.
std::string plain(std::string_view text) {
  constexpr size_t limit = 200;
  std::string result(text.substr(0, limit));
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (text.size() > limit) result += fmt::format("... ({} bytes)", text.size());
  return result;
}

std::string shape_list(const std::vector<int64_t>& shape) {
  constexpr size_t limit = 16;
  const auto shown = std::min(shape.size(), limit);
  return fmt::format("[{}{}]", fmt::join(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(shown), ", "),
                     shape.size() > limit ? fmt::format(", ... {} dimensions", shape.size()) : "");
}

/// Bytes of dtype x shape, multiplied in order as safetensors does: an overflow counts even if a later factor is 0.
std::optional<uint64_t> stored_bytes(const StoredTensor& tensor, bool* whole_bytes) {
  uint64_t count = 1;
  for (const int64_t length : tensor.shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(length), &count)) return std::nullopt;
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(tensor.type.bits), &count)) return std::nullopt;
  *whole_bytes = count % 8 == 0;
  return count / 8;
}

/// Takes nlohmann's parse events one by one: no document is built, and what is not expected ends the parse.
class HeaderReader {
 public:
  using json = nlohmann::json;

  explicit HeaderReader(std::string_view source) : source_(source) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool null() {
    // safetensors reads the metadata as an optional map.
    if (state_ == State::root && name_ == "__metadata__") return true;
    return scalar("null");
  }
  bool boolean(bool) { return scalar("a boolean"); }
  bool number_integer(json::number_integer_t) { return scalar("a negative number"); }
  bool number_float(json::number_float_t, const std::string&) { return scalar("not a whole number below 2^64"); }
  bool binary(json::binary_t&) { return scalar("binary"); }

  bool number_unsigned(json::number_unsigned_t number) {
    if (state_ == State::shape) {
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail("tensor {}: dimension {} of the shape does not fit 63 bits", quoted_name(name_), number);
      if (tensor_.shape.size() == max_dimensions) fail("tensor {}: more than {} dimensions", quoted_name(name_), max_dimensions);
      tensor_.shape.push_back(static_cast<int64_t>(number));
      return true;
    }
    if (state_ == State::offsets) {
      if (offset_count_ == 2) fail("tensor {}: data_offsets has more than two numbers", quoted_name(name_));
      (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = number;
      return true;
    }
    return scalar("a number");
  }

  bool string(std::string& text) {
    if (state_ == State::metadata) {
      if (!header_.metadata.try_emplace(std::move(name_), std::move(text)).second)
        fail("__metadata__: {} appears twice", quoted_name(name_));
      return true;
    }
    if (state_ == State::tensor && field_ == Field::dtype) {
      const auto* type =
          std::find_if(stored_types.begin(), stored_types.end(), [&](const StoredType& t) { return t.name == text; });
      if (type == stored_types.end())
        fail("tensor {}: unknown dtype {}; accepted: {}", quoted_name(name_), quoted_name(text), type_names());
      tensor_.type = *type;
      return true;
    }
    return scalar("a string");
  }

  bool start_object(size_t) {
    descend();
    if (state_ == State::start) {
      state_ = State::root;
    } else if (state_ == State::root && name_ == "__metadata__") {
      state_ = State::metadata;
    } else if (state_ == State::root) {
      state_ = State::tensor;
      tensor_ = {};
      seen_ = {};
      offset_count_ = 0;
    } else {
      skip_or_refuse("an object");
    }
    return true;
  }

  bool start_array(size_t) {
    descend();
    if (state_ == State::tensor && field_ == Field::shape) {
      state_ = State::shape;
    } else if (state_ == State::tensor && field_ == Field::offsets) {
      state_ = State::offsets;
    } else {
      skip_or_refuse("a list");
    }
    return true;
  }

  bool end_object() {
    --depth_;
    if (leave_skipped()) return true;
    if (state_ == State::tensor) finish_tensor();
    state_ = state_ == State::root ? State::start : State::root;
    return true;
  }

  bool end_array() {
    --depth_;
    if (leave_skipped()) return true;
    if (state_ == State::offsets && offset_count_ != 2)
      fail("tensor {}: data_offsets has {} numbers, two are needed", quoted_name(name_), offset_count_);
    state_ = State::tensor;
    return true;
  }

  bool key(std::string& text) {
    if (skipped_ > 0) return true;
    if (state_ == State::tensor) {
      enter_field(text);
      return true;
    }
    name_ = std::move(text);
    if (state_ == State::root && name_ == "__metadata__" && std::exchange(metadata_seen_, true))
      fail("__metadata__ appears twice");
    return true;
  }

  template <class Exception>
  bool parse_error(size_t position, const std::string&, const Exception& error) {
    fail("the header is not valid JSON at byte {}: {}", position, plain(error.what()));
    return false;
  }

 private:
  enum class State { start, root, metadata, tensor, shape, offsets };
  enum class Field { dtype, shape, offsets, unknown };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_input(subsystem, "{}: {}", source_, fmt::format(text, std::forward<Args>(args)...));
  }

  static std::string type_names() {
    std::string names;
    for (const StoredType& type : stored_types) names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
    return names;
  }

  void descend() {
    if (++depth_ > max_depth) fail("the header is nested more than {} levels deep", max_depth);
  }

  /// Fields that the format does not name are skipped, as safetensors does.
  bool skipping() const { return skipped_ > 0 || (state_ == State::tensor && field_ == Field::unknown); }

  void skip_or_refuse(std::string_view found) {
    if (!skipping()) refuse(found);
    ++skipped_;
  }

  bool leave_skipped() {
    if (skipped_ == 0) return false;
    --skipped_;
    return true;
  }

  bool scalar(std::string_view found) {
    if (!skipping()) refuse(found);
    return true;
  }

  [[noreturn]] void refuse(std::string_view found) const {
    switch (state_) {
      case State::start:
        fail("the header is {}, not a JSON object", found);
      case State::root:
        if (name_ == "__metadata__") fail("__metadata__ is {}, not an object of strings", found);
        fail("tensor {} is {}, not an object with dtype, shape and data_offsets", quoted_name(name_), found);
      case State::metadata:
        fail("__metadata__: {} is {}, not a string", quoted_name(name_), found);
      case State::shape:
        fail("tensor {}: shape holds {}; whole numbers from 0 are accepted", quoted_name(name_), found);
      case State::offsets:
        fail("tensor {}: data_offsets holds {}; whole numbers from 0 are accepted", quoted_name(name_), found);
      case State::tensor:
        break;
    }
    const auto* what = field_ == Field::dtype ? "dtype" : field_ == Field::shape ? "shape" : "data_offsets";
    fail("tensor {}: {} is {}; accepted: {}", quoted_name(name_), what, found,
         field_ == Field::dtype ? "a string" : "a list of whole numbers");
  }

  void enter_field(const std::string& text) {
    field_ = text == "dtype"          ? Field::dtype
             : text == "shape"        ? Field::shape
             : text == "data_offsets" ? Field::offsets
                                      : Field::unknown;
    if (field_ != Field::unknown && std::exchange(seen_[static_cast<size_t>(field_)], true))
      fail("tensor {}: {} appears twice", quoted_name(name_), text);
  }

  void finish_tensor() {
    constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};
    for (size_t i = 0; i < fields.size(); ++i)
      if (!seen_[i]) fail("tensor {}: {} is missing", quoted_name(name_), fields[i]);
    if (header_.tensors.contains(name_)) fail("tensor {} appears twice", quoted_name(name_));
    tensor_.shape.shrink_to_fit();
    header_.tensors.emplace(std::move(name_), std::move(tensor_));
  }

  std::string_view source_;
  SafetensorsHeader header_;
  State state_ = State::start;
  Field field_ = Field::unknown;
  std::string name_;  ///< the current tensor or metadata key
  StoredTensor tensor_;
  std::array<bool, 3> seen_{};
  int offset_count_ = 0;
  bool metadata_seen_ = false;
  int depth_ = 0;
  int skipped_ = 0;  ///< depth inside a field that is skipped
};

/// The tensor's range against its dtype and shape.
void check_size(const std::string& name, const StoredTensor& tensor, uint64_t data_bytes, std::string_view source) {
  const auto fail = [&](const std::string& text) { fail_input(subsystem, "{}: tensor {}: {}", source, quoted_name(name), text); };
  if (tensor.end < tensor.begin) fail(fmt::format("data_offsets [{}, {}] end before they begin", tensor.begin, tensor.end));
  bool whole_bytes = false;
  const auto needed = stored_bytes(tensor, &whole_bytes);
  const auto is = fmt::format("{} {}", tensor.type.name, shape_list(tensor.shape));
  if (!needed) fail(fmt::format("the size of {} overflows 64 bits", is));
  if (!whole_bytes) fail(fmt::format("{} does not fill whole bytes", is));
  if (*needed != tensor.end - tensor.begin)
    fail(fmt::format("{} takes {} bytes, data_offsets [{}, {}] hold {}", is, *needed, tensor.begin, tensor.end,
                     tensor.end - tensor.begin));
  if (tensor.end > data_bytes)
    fail(fmt::format("data_offsets [{}, {}] end past the file, which has {} bytes of data (is the download complete?)",
                     tensor.begin, tensor.end, data_bytes));
}

/// Every byte of data belongs to exactly one tensor.
void check_coverage(const SafetensorsHeader& header, uint64_t data_bytes, std::string_view source) {
  using Entry = std::map<std::string, StoredTensor>::value_type;
  std::vector<const Entry*> order;
  order.reserve(header.tensors.size());
  for (const Entry& entry : header.tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  uint64_t position = 0;
  for (const Entry* entry : order) {
    if (entry->second.begin != position)
      fail_input(subsystem, "{}: tensor {}: data begins at {}, the data before it ends at {}; gaps and overlaps are refused",
                 source, quoted_name(entry->first), entry->second.begin, position);
    position = entry->second.end;
  }
  if (position != data_bytes)
    fail_input(subsystem, "{}: {} bytes at the end of the file belong to no tensor", source, data_bytes - position);
}

}  // namespace

std::string quoted_name(std::string_view name) { return fmt::format("\"{}\"", plain(name)); }

uint64_t safetensors_header_length(std::span<const std::byte> prefix, uint64_t file_size, std::string_view source) {
  if (prefix.size() < 8 || file_size < 8)
    fail_input(subsystem, "{}: too small for a safetensors file: {} bytes, at least 8 are needed", source, file_size);
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= static_cast<uint64_t>(prefix[i]) << (8 * i);
  if (length > max_safetensors_header)
    fail_input(subsystem, "{}: header too large: {} bytes, at most {} are accepted (is it a safetensors file?)", source, length,
               max_safetensors_header);
  if (length > file_size - 8)
    fail_input(subsystem, "{}: invalid header length: {} bytes in a file of {} (is the download complete?)", source, length,
               file_size);
  return length;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_size, std::string_view source) {
  const uint64_t length = safetensors_header_length(bytes, file_size, source);
  if (length > bytes.size() - 8) fail_input(subsystem, "{}: only {} bytes of the header were read", source, bytes.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (text.empty() || text.front() != '{') fail_input(subsystem, "{}: the header does not begin with '{{'", source);
  // nlohmann takes a zero byte for the end of the text and would not see what follows.
  if (text.find('\0') != std::string_view::npos) fail_input(subsystem, "{}: the header holds a zero byte", source);

  HeaderReader reader(source);
  HeaderReader::json::sax_parse(text.begin(), text.end(), &reader);
  SafetensorsHeader header = reader.take();
  header.data_begin = 8 + length;
  const uint64_t data_bytes = file_size - header.data_begin;
  for (const auto& [name, tensor] : header.tensors) check_size(name, tensor, data_bytes, source);
  check_coverage(header, data_bytes, source);
  for (auto& [name, tensor] : header.tensors) {
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  return header;
}

SliceLayout slice_layout(const StoredTensor& tensor, int64_t dim, std::span<const Range> ranges, std::string_view what) {
  if (tensor.type.bits % 8 != 0) fail_input(subsystem, "{}: {} elements are narrower than a byte", what, tensor.type.name);
  const std::vector<int64_t>& shape = tensor.shape;
  SliceLayout layout;
  layout.shape = shape;
  const uint64_t whole = tensor.end - tensor.begin;
  if (ranges.empty()) {
    layout.row_bytes = layout.bytes = whole;
    if (whole > 0) layout.runs = {{0, whole}};
    return layout;
  }
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    fail_input(subsystem, "{}: slice of dimension {}, the shape is {}", what, dim, shape_list(shape));
  const int64_t length = shape[static_cast<size_t>(dim)];
  int64_t position = 0, total = 0;
  for (const Range& range : ranges) {
    if (range.begin < position || range.begin > length || range.size < 0 || range.size > length - range.begin)
      fail_input(subsystem, "{}: slice [{}, +{}) of dimension {}; ranges must ascend, not overlap and lie in {}", what,
                 range.begin, range.size, dim, shape_list(shape));
    position = range.end();
    total += range.size;
  }
  layout.shape[static_cast<size_t>(dim)] = total;
  if (whole == 0 || total == 0) return layout;  // also keeps the products below from overflowing

  uint64_t inner = static_cast<uint64_t>(tensor.type.bits) / 8;
  for (size_t i = static_cast<size_t>(dim) + 1; i < shape.size(); ++i) inner *= static_cast<uint64_t>(shape[i]);
  layout.row_bytes = inner * static_cast<uint64_t>(length);
  layout.outer = whole / layout.row_bytes;
  for (const Range& range : ranges) {
    const SliceLayout::Run run{static_cast<uint64_t>(range.begin) * inner, static_cast<uint64_t>(range.size) * inner};
    if (run.size == 0) continue;
    if (!layout.runs.empty() && layout.runs.back().offset + layout.runs.back().size == run.offset)
      layout.runs.back().size += run.size;
    else
      layout.runs.push_back(run);
  }
  layout.bytes = layout.outer * static_cast<uint64_t>(total) * inner;
  if (layout.bytes == whole) {  // all rows, entirely: one run
    layout.outer = 1;
    layout.row_bytes = whole;
    layout.runs = {{0, whole}};
  }
  return layout;
}

}  // namespace shardproof
