#include "models/safetensors.hpp"

#include "tests/support/safetensors_writer.hpp"
#include "tests/support/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace shardproof {
namespace {

using test::safetensors_bytes;
using testing::HasSubstr;

constexpr std::string_view four = "abcd";

/// The header of one tensor "t", then `more` tensors.
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, std::string_view more = "") {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}{}}})", dtype, shape, offsets, more);
}

std::string nested(int levels) {
  return fmt::format(R"({{"t":{{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":{}{}}}}})", std::string(static_cast<size_t>(levels), '['),
                     std::string(static_cast<size_t>(levels), ']'));
}

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::string zeros(size_t count) { return std::string(count, '\0'); }

struct File {
  std::string name;
  std::string bytes;
  std::string refused;  ///< in the message; empty: accepted
};

void PrintTo(const File& file, std::ostream* out) { *out << file.name; }

class SafetensorsTable : public testing::TestWithParam<File> {};

// ml-explore/mlx#3363, ztxz16/fastllm#713, leejet/stable-diffusion.cpp#1754, safetensors#278 and #668,
// fastsafetensors#89: what safetensors 0.8.0 does with each file was observed; "ours" marks where we are stricter.
TEST_P(SafetensorsTable, IsAcceptedOrRefusedByName) {
  const test::TempDir folder;
  const auto path = folder / "weights.safetensors";
  test::write_file(path, GetParam().bytes);
  if (GetParam().refused.empty()) {
    EXPECT_NO_THROW(SafetensorsFile{path});
    return;
  }
  try {
    SafetensorsFile file(path);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().refused));
  }
}

const std::vector<File> table{
    {"LengthAllOnes", safetensors_bytes("{}", "", UINT64_MAX), "header too large"},
    {"LengthThatWraps", safetensors_bytes("{}", "", UINT64_MAX - 7), "header too large"},
    {"LengthOverTheLimit", safetensors_bytes("{}", "", 100'000'001), "header too large"},
    {"LengthAtTheLimit", safetensors_bytes("{}", "", 100'000'000), "invalid header length"},
    {"LengthPastTheFile", safetensors_bytes("{}", "", 1000), "invalid header length"},
    {"LengthOneMore", safetensors_bytes("{}", "", 3), "invalid header length"},
    {"ThreeBytes", "abc", "too small"},
    {"NoBytes", "", "too small"},
    {"LengthZero", safetensors_bytes(""), "does not begin with '{'"},
    {"SizeIsNotTheRange", safetensors_bytes(one("F32", "[1000,1000]", "[0,4]"), four), "tensor \"t\": F32 [1000, 1000] takes 4000000 bytes"},
    {"EndBeforeBegin", safetensors_bytes(one("F32", "[1]", "[4,0]"), four), "tensor \"t\": data_offsets [4, 0] end before"},
    {"EndPastTheFile", safetensors_bytes(one("F32", "[2]", "[0,8]"), four), "tensor \"t\": data_offsets [0, 8] end past the file"},
    {"EndFarPastTheFile", safetensors_bytes(one("U8", "[1152921504606846976]", "[0,1152921504606846976]"), four), "past the file"},
    {"BytesLeftOver", safetensors_bytes(one("F32", "[1]", "[0,4]"), "abcdefgh"), "4 bytes at the end of the file belong to no tensor"},
    {"FirstOffsetFour", safetensors_bytes(one("F32", "[1]", "[4,8]"), "abcdefgh"), "tensor \"t\": data begins at 4"},
    {"Gap", safetensors_bytes(one("U8", "[1]", "[0,1]", R"(,"u":{"dtype":"U8","shape":[1],"data_offsets":[2,3]})"), "abc"), "tensor \"u\""},
    {"Overlap", safetensors_bytes(one("U8", "[2]", "[0,2]", R"(,"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]})"), "abc"), "tensor \"u\""},
    {"SameBytesTwice", safetensors_bytes(one("U8", "[2]", "[0,2]", R"(,"u":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})"), "ab"), "tensor \"u\""},
    {"EmptyTensorInsideAnother", safetensors_bytes(one("F32", "[1]", "[0,4]", R"(,"u":{"dtype":"U8","shape":[0],"data_offsets":[2,2]})"), four), "data begins at"},
    {"ShapeOverflows", safetensors_bytes(one("F32", "[4611686018427387904,8]", "[0,0]")), "tensor \"t\": the size of F32 [4611686018427387904, 8] overflows"},
    {"ShapeOverflowsThenZero", safetensors_bytes(one("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]")), "overflows"},
    {"BitsOverflow", safetensors_bytes(one("F64", "[288230376151711744]", "[0,0]")), "overflows"},
    {"DimensionOverInt64", safetensors_bytes(one("F32", "[18446744073709551615,0]", "[0,0]")), "63 bits"},  // ours
    {"SixtyFiveDimensions", safetensors_bytes(one("F32", "[1" + repeated(",1", 64) + "]", "[0,4]"), four), "more than 64 dimensions"},  // ours
    {"DimensionOverUint64", safetensors_bytes(one("F32", "[18446744073709551616,0]", "[0,0]")), "shape holds"},
    {"ShapeOneWithoutBytes", safetensors_bytes(one("F32", "[1]", "[0,0]")), "tensor \"t\": F32 [1] takes 4 bytes"},
    {"NegativeOffset", safetensors_bytes(one("F32", "[1]", "[-8,4]"), four), "tensor \"t\": data_offsets holds a negative number"},
    {"NegativeZero", safetensors_bytes(one("F32", "[1]", "[-0,4]"), four), "data_offsets holds"},
    {"FractionalOffset", safetensors_bytes(one("F32", "[1]", "[0.0,4]"), four), "data_offsets holds not a whole number"},
    {"ThreeOffsets", safetensors_bytes(one("F32", "[1]", "[0,4,4]"), four), "more than two"},
    {"OneOffset", safetensors_bytes(one("F32", "[0]", "[0]")), "has 1 numbers"},
    {"OffsetsAreText", safetensors_bytes(one("F32", "[1]", "\"0,4\""), four), "data_offsets is a string"},
    {"NestedShape", safetensors_bytes(one("F32", "[[1]]", "[0,4]"), four), "shape holds a list"},
    {"ShapeIsNull", safetensors_bytes(one("F32", "null", "[0,4]"), four), "shape is null"},
    {"NegativeDimension", safetensors_bytes(one("F32", "[-1]", "[0,4]"), four), "shape holds a negative number"},
    {"UnknownDtype", safetensors_bytes(one("F33", "[1]", "[0,4]"), four), "tensor \"t\": unknown dtype \"F33\""},
    {"DtypeIsNumber", safetensors_bytes(R"({"t":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", four), "dtype is a number"},
    {"NoDtype", safetensors_bytes(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", four), "tensor \"t\": dtype is missing"},
    {"NoShape", safetensors_bytes(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", four), "shape is missing"},
    {"NoOffsets", safetensors_bytes(R"({"t":{"dtype":"F32","shape":[1]}})", four), "data_offsets is missing"},
    {"DtypeTwice", safetensors_bytes(R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four), "dtype appears twice"},
    {"TensorTwice", safetensors_bytes(one("F32", "[1]", "[0,4]", R"(,"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), four), "tensor \"t\" appears twice"},  // ours
    {"TensorIsList", safetensors_bytes(R"({"t":["F32",[1],[0,4]]})", four), "tensor \"t\" is a list"},  // ours
    {"TensorIsNull", safetensors_bytes(R"({"t":null})"), "tensor \"t\" is null"},
    {"HalfByte", safetensors_bytes(one("F4", "[1]", "[0,1]"), "a"), "does not fill whole bytes"},
    {"MetadataValueIsNumber", safetensors_bytes(R"({"__metadata__":{"x":1}})"), "__metadata__: \"x\" is a number"},
    {"MetadataValueIsObject", safetensors_bytes(R"({"__metadata__":{"x":{}}})"), "__metadata__: \"x\" is an object"},
    {"MetadataIsText", safetensors_bytes(R"({"__metadata__":"x"})"), "__metadata__ is a string"},
    {"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ appears twice"},
    {"MetadataKeyTwice", safetensors_bytes(R"({"__metadata__":{"a":"b","a":"c"}})"), "\"a\" appears twice"},  // ours
    {"HeaderIsList", safetensors_bytes("[]"), "does not begin with '{'"},
    {"LeadingSpace", safetensors_bytes(" {}"), "does not begin with '{'"},  // ours: the format says so, its reader does not
    {"NotClosed", safetensors_bytes("{"), "not valid JSON"},
    {"TrailingText", safetensors_bytes("{}x"), "not valid JSON"},
    {"TrailingZeroBytes", safetensors_bytes("{}" + zeros(2)), "zero byte"},
    {"TextBehindZeroByte", safetensors_bytes("{}" + zeros(1) + "{"), "zero byte"},
    {"InvalidUtf8", safetensors_bytes("{\"\xff\":{}}"), "not valid JSON"},
    {"LoneSurrogate", safetensors_bytes(R"({"\ud800":{}})"), "not valid JSON"},
    {"Nested128Levels", safetensors_bytes(nested(126), four), "nested more than 127 levels"},
    {"NestedMillionLevels", safetensors_bytes(nested(1'000'000), four), "nested more than 127 levels"},

    {"ZeroElements", safetensors_bytes(one("F32", "[0]", "[0,0]")), ""},
    {"ZeroElementsAtTheTail", safetensors_bytes(one("U8", "[1]", "[0,1]", R"(,"u":{"dtype":"F32","shape":[3,0],"data_offsets":[1,1]})"), "a"), ""},
    {"TwoEmptyTensors", safetensors_bytes(one("U8", "[0]", "[0,0]", R"(,"u":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]})")), ""},
    {"ZeroThenHuge", safetensors_bytes(one("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]")), ""},
    {"SixtyFourDimensions", safetensors_bytes(one("F32", "[1" + repeated(",1", 63) + "]", "[0,4]"), four), ""},
    {"Scalar", safetensors_bytes(one("F32", "[]", "[0,4]"), four), ""},
    {"NoTensors", safetensors_bytes("{}"), ""},
    {"EmptyName", safetensors_bytes(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four), ""},
    {"EmptyMetadata", safetensors_bytes(one("F32", "[1]", "[0,4]", R"(,"__metadata__":{})"), four), ""},
    {"NullMetadata", safetensors_bytes(one("F32", "[1]", "[0,4]", R"(,"__metadata__":null)"), four), ""},
    {"Metadata", safetensors_bytes(one("F32", "[1]", "[0,4]", R"(,"__metadata__":{"format":"pt"})"), four), ""},
    {"Misaligned", safetensors_bytes(one("U8", "[1]", "[0,1]", R"(,"u":{"dtype":"F32","shape":[2],"data_offsets":[1,9]})"), "abcdefghi"), ""},
    {"NotInOffsetOrder", safetensors_bytes(one("U8", "[1]", "[2,3]", R"(,"u":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})"), "abc"), ""},
    {"TrailingSpaces", safetensors_bytes(one("F32", "[1]", "[0,4]") + "     ", four), ""},
    {"UnknownField", safetensors_bytes(R"({"t":{"dtype":"F32","x":[1.5,{"a":[null,-1,true,"b"]}],"shape":[1],"data_offsets":[0,4]}})", four), ""},
    {"Nested127Levels", safetensors_bytes(nested(125), four), ""},
    {"TwoHalfBytes", safetensors_bytes(one("F4", "[2]", "[0,1]"), "a"), ""},
    {"EscapedName", safetensors_bytes(R"({"\u0000\n":{"dtype":"F\u00332","shape":[1],"data_offsets":[0,4]}})", four), ""},
};

INSTANTIATE_TEST_SUITE_P(Headers, SafetensorsTable, testing::ValuesIn(table), [](const auto& info) { return info.param.name; });

TEST(Safetensors, HeaderLengthIsCheckedBeforeAnythingIsAllocated) {
  // A sparse file as large as the header claims: the limit decides, not the file's size.
  const test::TempDir folder;
  const auto path = folder / "sparse.safetensors";
  test::write_file(path, safetensors_bytes("{}", "", 1ULL << 33));
  std::filesystem::resize_file(path, (1ULL << 33) + 8);
  EXPECT_THAT([&] { SafetensorsFile file(path); }, testing::ThrowsMessage<Error>(HasSubstr("header too large")));
}

TEST(Safetensors, EveryTypeOfTheFormatIsAcceptedAndThoseWithoutTensorTypeAreRefusedWhenRead) {
  const test::TempDir folder;
  const std::map<std::string, int> refused{{"U16", 2}, {"U32", 4}, {"U64", 8}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
                                           {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}};
  for (const auto& [type, bytes] : refused) {
    test::write_file(folder / "t", safetensors_bytes(one(type, "[1]", fmt::format("[0,{}]", bytes)), zeros(static_cast<size_t>(bytes))));
    SafetensorsFile file(folder / "t");
    EXPECT_EQ(file.tensors().at("t").dtype, at::ScalarType::Undefined);
    EXPECT_THAT([&] { file.read("t"); }, testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("tensor \"t\""), HasSubstr(type)))) << type;
  }
  for (const std::string type : {"F4", "F6_E2M3", "F6_E3M2"}) {
    test::write_file(folder / "t", safetensors_bytes(one(type, "[8]", type == "F4" ? "[0,4]" : "[0,6]"), zeros(type == "F4" ? 4 : 6)));
    SafetensorsFile file(folder / "t");
    EXPECT_THAT([&] { file.read("t"); }, testing::ThrowsMessage<Error>(HasSubstr(type)));
  }
}

TEST(Safetensors, EveryTensorTypeComesBackAsWritten) {
  const test::TempDir folder;
  std::map<std::string, Tensor> tensors;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte})
    tensors[c10::toString(dtype)] = at::arange(24).reshape({2, 3, 4}).to(dtype);
  tensors["Bool"] = at::arange(24).reshape({2, 3, 4}).remainder(3).eq(0);
  test::write_safetensors(folder / "t", tensors);
  SafetensorsFile file(folder / "t");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.tensors().at(name), (TensorInfo{tensor.scalar_type(), {2, 3, 4}}));
    EXPECT_TRUE(at::equal(file.read(name), tensor)) << name;
  }
}

TEST(Safetensors, BoolsAreZeroOrOne) {
  const test::TempDir folder;
  test::write_file(folder / "t", safetensors_bytes(one("BOOL", "[4]", "[0,4]"), std::string("\x00\x01\x02\xff", 4)));
  SafetensorsFile file(folder / "t");
  const Tensor read = file.read("t");
  EXPECT_EQ(std::string(static_cast<const char*>(read.const_data_ptr()), 4), std::string("\x00\x01\x01\x01", 4));
}

TEST(Safetensors, MisalignedAndUnorderedDataHasRightValues) {
  const test::TempDir folder;
  const float values[2] = {1.5F, -2.25F};
  const std::string data = "\x07" + std::string(reinterpret_cast<const char*>(values), 8);
  test::write_file(folder / "t", safetensors_bytes(R"({"z":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   )", data));
  SafetensorsFile file(folder / "t");
  EXPECT_TRUE(at::equal(file.read("z"), at::tensor({1.5F, -2.25F})));
  EXPECT_EQ(file.read("a").item<int>(), 7);
}

TEST(Safetensors, EmptyAndScalarTensorsAreRead) {
  const test::TempDir folder;
  const std::map<std::string, Tensor> tensors{{"empty", at::empty({3, 0}, at::kFloat)}, {"scalar", at::tensor(2.5F).reshape({})}};
  test::write_safetensors(folder / "t", tensors);
  SafetensorsFile file(folder / "t");
  EXPECT_EQ(file.read("empty").sizes(), (at::IntArrayRef{3, 0}));
  EXPECT_EQ(file.read("empty", {0, {{1, 2}}}).sizes(), (at::IntArrayRef{2, 0}));
  EXPECT_EQ(file.read("scalar").item<float>(), 2.5F);
  EXPECT_EQ(file.read("scalar").dim(), 0);
  EXPECT_THROW(file.read("scalar", {0, {{0, 1}}}), Error);
}

TEST(Safetensors, ShapeThatNoTensorCanHaveIsRefusedWhenRead) {
  const test::TempDir folder;
  test::write_file(folder / "t", safetensors_bytes(one("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]")));
  SafetensorsFile file(folder / "t");
  try {
    EXPECT_EQ(file.read("t").numel(), 0);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor \"t\""));
  }
}

TEST(Safetensors, MetadataIsKept) {
  const test::TempDir folder;
  test::write_file(folder / "t", safetensors_bytes(R"({"__metadata__":{"format":"pt","a":""}})"));
  EXPECT_EQ(SafetensorsFile(folder / "t").metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"a", ""}}));
}

// ---- slices

std::map<std::string, Tensor> slice_tensors() {
  return {{"w", at::arange(8 * 4, at::kFloat).reshape({8, 4})},
          {"b", at::arange(6 * 10 * 4).remainder(251).to(at::kBFloat16).reshape({6, 10, 4})},
          {"x", at::arange(7, at::kByte)}};
}

TEST(SafetensorsSlice, OwnsAndReadsExactlyItsBytes) {  // ModelTC/LightX2V#1390: chunk(0).contiguous() keeps all of it
  const test::TempDir folder;
  test::write_safetensors(folder / "t", slice_tensors());
  for (const int64_t dim : {0, 1}) {
    for (int rank = 0; rank < 2; ++rank) {
      SafetensorsFile file(folder / "t");
      const Tensor part = file.read("w", {dim, packed_share(dim == 0 ? 8 : 4, {}, 2, rank)});
      EXPECT_EQ(part.storage().nbytes(), 64);
      EXPECT_EQ(file.bytes_read(), 64);
      EXPECT_TRUE(part.is_contiguous());
      EXPECT_TRUE(at::equal(part, slice_tensors().at("w").chunk(2, dim)[rank])) << "dim " << dim << " rank " << rank;
    }
  }
}

TEST(SafetensorsSlice, EqualsTheSliceOfTheWhole) {
  const test::TempDir folder;
  const auto tensors = slice_tensors();
  test::write_safetensors(folder / "t", tensors);
  const std::vector<std::vector<Range>> cuts{{{0, 1}},         {{2, 2}},         {{1, 1}, {3, 1}}, {{0, 1}, {1, 2}},
                                             {{0, 1}, {2, 0}, {3, 1}}, {{0, 4}}, {{4, 0}},         {{0, 1}, {2, 1}, {3, 1}}};
  for (const auto& [name, whole] : tensors) {
    for (int64_t dim = 0; dim < whole.dim(); ++dim) {
      for (const auto& ranges : cuts) {
        std::vector<Tensor> parts;
        for (const Range& range : ranges) parts.push_back(whole.narrow(dim, range.begin, range.size));
        const Tensor expected = at::cat(parts, dim);
        SafetensorsFile file(folder / "t");
        const Tensor found = file.read(name, {dim, ranges});
        EXPECT_EQ(found.scalar_type(), whole.scalar_type());
        EXPECT_TRUE(at::equal(found, expected)) << name << " dim " << dim << " first " << ranges.front().begin;
        EXPECT_EQ(found.storage().nbytes(), expected.nbytes());
        EXPECT_EQ(file.bytes_read(), static_cast<int64_t>(expected.nbytes()));
      }
    }
  }
}

TEST(SafetensorsSlice, PackedSharesOfAllRanksAreTheWhole) {
  const test::TempDir folder;
  const auto tensors = slice_tensors();
  test::write_safetensors(folder / "t", tensors);
  SafetensorsFile file(folder / "t");
  const Tensor& whole = tensors.at("w");
  for (int rank = 0; rank < 2; ++rank) {  // blocks of 2 and 6 rows: rows r and 2 + 3r .. 5 + 3r
    const Tensor expected = at::cat({whole.narrow(0, rank, 1), whole.narrow(0, 2 + 3 * rank, 3)});
    EXPECT_TRUE(at::equal(file.read("w", {0, packed_share(8, {1, 3}, 2, rank)}), expected));
  }
  EXPECT_EQ(file.bytes_read(), 128);
}

TEST(SafetensorsSlice, NeighbouringRunsAreOneRead) {
  const StoredTensor tensor{{"F32", 32}, {8, 4}, 100, 228};
  EXPECT_EQ(slice_layout(tensor, 0, std::vector<Range>{{0, 2}, {2, 3}}, "t").runs.size(), 1U);
  EXPECT_EQ(slice_layout(tensor, 0, std::vector<Range>{{0, 2}, {3, 3}}, "t").runs.size(), 2U);
  EXPECT_EQ(slice_layout(tensor, 1, std::vector<Range>{{0, 4}}, "t").outer, 1U);
  EXPECT_EQ(slice_layout(tensor, 1, std::vector<Range>{{0, 3}}, "t").outer, 8U);
}

TEST(SafetensorsSlice, ImpossibleOnesAreRefusedByName) {
  const test::TempDir folder;
  test::write_safetensors(folder / "t", slice_tensors());
  SafetensorsFile file(folder / "t");
  const std::vector<Slice> impossible{{2, {{0, 1}}},         {-1, {{0, 1}}},        {0, {{0, 9}}},
                                      {0, {{9, 0}}},         {0, {{-1, 2}}},        {0, {{0, -1}}},
                                      {0, {{2, 2}, {0, 2}}}, {0, {{0, 3}, {2, 1}}}, {0, {{1, std::numeric_limits<int64_t>::max()}}}};
  for (const Slice& slice : impossible)
    EXPECT_THAT([&] { file.read("w", slice); }, testing::ThrowsMessage<Error>(HasSubstr("tensor \"w\"")))
        << slice.dim << " " << slice.ranges.front().begin << " " << slice.ranges.front().size;
  EXPECT_EQ(file.bytes_read(), 0);
}

// ---- files

TEST(Safetensors, UnknownTensorAndMissingFileAreNamed) {
  const test::TempDir folder;
  test::write_safetensors(folder / "t", slice_tensors());
  SafetensorsFile file(folder / "t");
  EXPECT_THAT([&] { file.read("nope"); }, testing::ThrowsMessage<Error>(HasSubstr("has no tensor \"nope\"")));
  EXPECT_THAT([&] { SafetensorsFile other(folder / "absent"); }, testing::ThrowsMessage<Error>(HasSubstr("absent: cannot be opened")));
  EXPECT_THAT([&] { SafetensorsFile other(folder.path()); }, testing::ThrowsMessage<Error>(HasSubstr("not a regular file")));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { SafetensorsFile other(folder / "pipe"); }, testing::ThrowsMessage<Error>(HasSubstr("not a regular file")));
}

TEST(Safetensors, FileCutShortAfterOpeningIsAnError) {
  const test::TempDir folder;
  test::write_safetensors(folder / "t", std::map<std::string, Tensor>{{"w", at::arange(1000, at::kFloat)}});
  SafetensorsFile file(folder / "t");
  std::filesystem::resize_file(folder / "t", std::filesystem::file_size(folder / "t") - 8);
  EXPECT_THAT([&] { file.read("w"); }, testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("tensor \"w\""), HasSubstr("cut short"))));
  EXPECT_EQ(file.read("w", {0, {{0, 10}}}).numel(), 10);
}

TEST(Safetensors, HashSeesEveryByteOfASmallFile) {
  const test::TempDir folder;
  const Tensor values = at::arange(1003, at::kByte);
  std::set<uint64_t> hashes;
  for (const int64_t changed : {-1, 0, 7, 8, 500, 1002}) {
    Tensor copy = values.clone();
    if (changed >= 0) copy[changed].bitwise_xor_(128);
    test::write_safetensors(folder / "t", std::map<std::string, Tensor>{{"w", copy}});
    hashes.insert(SafetensorsFile(folder / "t").hash(1));
  }
  test::write_safetensors(folder / "t", std::map<std::string, Tensor>{{"v", values}});
  hashes.insert(SafetensorsFile(folder / "t").hash(1));
  EXPECT_EQ(hashes.size(), 7U);
  SafetensorsFile file(folder / "t");
  EXPECT_EQ(file.hash(1), file.hash(1));
  EXPECT_EQ(file.bytes_read(), 0);
}

TEST(Safetensors, LongAndOddNamesMakeShortSingleLineMessages) {
  const std::string name(100'000, 'n');
  const auto bytes = safetensors_bytes(fmt::format(R"({{"\n{}":1}})", name));
  try {
    parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(), "file");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_LT(text.size(), 400U);
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace shardproof
