// libFuzzer over the safetensors header parser and the slice arithmetic; ci/fuzz.sh builds and runs it.
// The first byte chooses how the rest becomes a file: as it is, or as a header with a right length in front and
// as much data behind as the next two bytes say, which gets past the length checks far more often.

#include "core/error.hpp"
#include "models/safetensors_header.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

using namespace shardproof;

void require_that(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

std::vector<std::byte> make_file(std::span<const uint8_t> input) {
  const auto bytes = std::as_bytes(input);
  if (input.empty()) return {};
  if (input[0] % 4 == 0 || input.size() < 3) return {bytes.begin() + 1, bytes.end()};
  const size_t data = input[1] + 256U * (input[2] % 16);
  const uint64_t length = input.size() - 3;
  std::vector<std::byte> file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<std::byte>(length >> (8 * i)));
  file.insert(file.end(), bytes.begin() + 3, bytes.end());
  for (size_t i = 0; i < data; ++i) file.push_back(static_cast<std::byte>(i * 151 + (i >> 8)));
  return file;
}

/// What was accepted covers the data exactly once, without a wrong size.
void check_ranges(const SafetensorsHeader& header, uint64_t file_size) {
  uint64_t total = 0;
  for (const auto& [name, tensor] : header.tensors) {
    require_that(header.data_begin <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= file_size,
                 "a range lies in the data");
    unsigned __int128 bits = static_cast<unsigned>(tensor.type.bits);
    for (const int64_t length : tensor.shape) {
      require_that(length >= 0, "no dimension is negative");
      bits *= static_cast<uint64_t>(length);
      if (bits == 0) break;
    }
    require_that(bits == static_cast<unsigned __int128>(tensor.end - tensor.begin) * 8, "a range is dtype x shape");
    total += tensor.end - tensor.begin;
  }
  require_that(total == file_size - header.data_begin, "the ranges are all of the data");
}

/// The slice by its definition, one element at a time.
std::vector<std::byte> plain_slice(const std::vector<std::byte>& file, const StoredTensor& tensor, size_t dim,
                                   const std::vector<Range>& ranges) {
  const uint64_t item = static_cast<uint64_t>(tensor.type.bits) / 8;
  uint64_t inner = item;
  for (size_t i = dim + 1; i < tensor.shape.size(); ++i) inner *= static_cast<uint64_t>(tensor.shape[i]);
  const auto length = static_cast<uint64_t>(tensor.shape[dim]);
  std::vector<std::byte> result;
  for (uint64_t row = tensor.begin; row < tensor.end; row += length * inner)
    for (const Range& range : ranges)
      for (auto i = static_cast<uint64_t>(range.begin) * inner; i < static_cast<uint64_t>(range.end()) * inner; ++i)
        result.push_back(file.at(row + i));
  return result;
}

void check_slice(const std::vector<std::byte>& file, const StoredTensor& tensor, size_t dim, const std::vector<Range>& ranges) {
  const SliceLayout layout = slice_layout(tensor, static_cast<int64_t>(dim), ranges, "fuzz");
  std::vector<std::byte> found;
  for (uint64_t row = 0; row < layout.outer; ++row) {
    for (const SliceLayout::Run& run : layout.runs) {
      const uint64_t begin = tensor.begin + row * layout.row_bytes + run.offset;
      require_that(begin >= tensor.begin && run.size <= tensor.end - begin, "a run lies in its tensor");
      found.insert(found.end(), file.begin() + static_cast<ptrdiff_t>(begin),
                   file.begin() + static_cast<ptrdiff_t>(begin + run.size));
    }
  }
  require_that(found.size() == layout.bytes, "the runs are as long as the slice");
  if (ranges.empty())
    require_that(std::equal(found.begin(), found.end(), file.begin() + static_cast<ptrdiff_t>(tensor.begin),
                            file.begin() + static_cast<ptrdiff_t>(tensor.end)),
                 "no ranges mean the whole");
  else if (tensor.end > tensor.begin)
    require_that(found == plain_slice(file, tensor, dim, ranges), "the runs are the slice");
  else
    require_that(found.empty(), "an empty tensor has empty slices");
}

/// Halves, two ranges with a hole, and ranges made from the input, which are often impossible.
void check_slices(const std::vector<std::byte>& file, const StoredTensor& tensor, std::span<const uint8_t> input) {
  if (tensor.type.bits % 8 != 0) return;
  check_slice(file, tensor, 0, {});
  for (size_t dim = 0; dim < std::min<size_t>(tensor.shape.size(), 4); ++dim) {
    const int64_t n = tensor.shape[dim];
    check_slice(file, tensor, dim, {{0, n}});
    check_slice(file, tensor, dim, {{n / 2, n - n / 2}});
    check_slice(file, tensor, dim, {{0, n / 4}, {n / 2, n / 4}, {n / 2 + n / 4, n / 8}});
    int64_t a = 0, b = 0;
    for (size_t i = 0; i < std::min<size_t>(input.size(), 8); ++i) {
      a = static_cast<int64_t>(static_cast<uint64_t>(a) << 8 | input[i]);
      b = static_cast<int64_t>(static_cast<uint64_t>(b) << 8 | input[input.size() - 1 - i]);
    }
    try {
      check_slice(file, tensor, dim, {{a % 8, b % 8}, {a, b}});
    } catch (const Error& error) {
      require_that(error.fault() == Fault::input, "slices are refused as input");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  const std::vector<std::byte> file = make_file(input);
  try {
    const SafetensorsHeader header = parse_safetensors_header(file, file.size(), "fuzz");
    check_ranges(header, file.size());
    for (const auto& [name, tensor] : header.tensors) check_slices(file, tensor, input);
  } catch (const Error& error) {
    require_that(error.fault() == Fault::input, "headers are refused as input");
  }
  return 0;
}
