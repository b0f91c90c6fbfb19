#include "sluice/weights/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "files.h"
#include "weights/weight_files.h"

namespace sluice {
namespace {

using testing::FakeWeights;
using testing::floats_of;
using testing::message_of;
using testing::read_bytes;
using testing::safetensors_of;
using testing::TempFolder;
using testing::write_file;

class Safetensors : public ::testing::Test {
 protected:
  // What the reader finds wrong, without path and advice.
  std::string refused(const std::string& bytes) {
    write_file(path_, bytes);
    std::string message =
        message_of<std::runtime_error>([&] { read_safetensors(path_); });
    const std::string before =
        "[weights] '" + path_ + "' must be a file of safetensors, but: ";
    const std::string after = "; download or save it anew";
    EXPECT_TRUE(message.starts_with(before) && message.ends_with(after))
        << message;
    message.resize(message.size() - after.size());
    return message.substr(before.size());
  }
  std::string refused_header(std::string_view header, std::size_t data = 8) {
    return refused(safetensors_of(header, data));
  }
  // Of one F32 tensor 'a'.
  std::string refused_tensor(const std::string& shape,
                             const std::string& offsets) {
    return refused_header(R"({"a":{"dtype":"F32","shape":)" + shape +
                          R"(,"data_offsets":)" + offsets + "}}");
  }

  TempFolder folder_;
  std::string path_ = folder_ / "w.safetensors";
};

TEST_F(Safetensors, ReadsWhatItWrote) {
  FakeWeights given;
  given.add("b", {2, 3}, 1).add("a", {2}, 10).add("none", {0, 4});
  given.add<std::uint8_t>("flags", WeightType::kBool, {3}, {1, 0, 1});
  given.add<double>("wide", WeightType::kF64, {}, {0.5});
  write_safetensors(path_, given.get().tensors, {{"format", "pt"}});
  const Weights read = read_safetensors(path_);
  ASSERT_EQ(read.tensors.size(), 5U);
  EXPECT_EQ(read.metadata,
            (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_NE(read.find("b"), nullptr);
  EXPECT_EQ(read.find("b")->dims, (Dims{2, 3}));
  EXPECT_EQ(floats_of(*read.find("b")), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.find("none")->dims, (Dims{0, 4}));
  EXPECT_EQ(read.find("wide")->type, WeightType::kF64);
  EXPECT_EQ(read.find("wide")->dims, Dims{});
  EXPECT_EQ(read.find("c"), nullptr);
}

TEST_F(Safetensors, WritesTheSameBytesForAnyOrderAligned) {
  FakeWeights given, turned;
  given.add<std::uint8_t>("flag", WeightType::kU8, {3}, {1, 2, 3});
  given.add("a", {2}).add("b", {3});
  turned.add("b", {3}).add("a", {2});
  turned.add<std::uint8_t>("flag", WeightType::kU8, {3}, {1, 2, 3});
  const auto& forth = given.get().tensors;
  auto back = turned.get().tensors;
  std::reverse(back.begin(), back.end());
  write_safetensors(path_, forth, {});
  write_safetensors(folder_ / "other", back, {});
  EXPECT_EQ(read_bytes(path_), read_bytes(folder_ / "other"));
  const auto bytes = read_bytes(path_);
  EXPECT_EQ((bytes.size() - 23) % 64, 0U);
  const Weights read = read_safetensors(path_);
  EXPECT_EQ(read.find("flag")->bytes.size(), 3U);
}

TEST_F(Safetensors, WriterRefusesWhatReadersWould) {
  FakeWeights named;
  named.add("__metadata__", {1});
  EXPECT_EQ(
      message_of<std::invalid_argument>(
          [&] { write_safetensors(path_, named.get().tensors, {}); }),
      "[write_safetensors] name '__metadata__' must be there once and not "
      "be __metadata__");
  FakeWeights wrong;
  wrong.add("a", {3});
  wrong.get().tensors[0].dims = {2};
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { write_safetensors(path_, wrong.get().tensors, {}); }),
            "[write_safetensors] tensor 'a' (F32, 2) must have bytes as its "
            "shape says, has 12");
  FakeWeights latin;
  latin.add("\xe4", {1});
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { write_safetensors(path_, latin.get().tensors, {}); }),
            "[write_safetensors] names and metadata must be UTF-8");
}

TEST_F(Safetensors, RefusesHeadersOfWrongLength) {
  EXPECT_EQ(refused(""), "it must begin with 8 bytes of length, has 0 in all");
  EXPECT_EQ(refused("1234567"),
            "it must begin with 8 bytes of length, has 7 in all");
  EXPECT_EQ(refused(std::string("\0\0\0\0\1\0\0\0{}", 10)),
            "its header must have at most 100000000 bytes, says 4294967296");
  EXPECT_EQ(refused(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
            "its header says 9 bytes, but only 2 follow; is it cut short?");
}

TEST_F(Safetensors, RefusesHeadersThatAreNoObject) {
  EXPECT_CONTAINS(refused_header("{\"a\""),
                  "[header] must be JSON in UTF-8: parse error at line 1");
  EXPECT_EQ(refused_header("[1]"),
            "its header must be a JSON object, is array");
  EXPECT_EQ(refused_header(R"({"a": 1})"),
            "tensor 'a' must be an object, is number");
  EXPECT_EQ(refused_header(R"({"a": {}})"), "tensor 'a' must have 'dtype'");
  EXPECT_EQ(
      refused_header(R"({"a":{"dtype":"F8_E4M3"}})"),
      "tensor 'a' must be of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL, is of "
      "\"F8_E4M3\"");
  EXPECT_EQ(refused_header(R"({"a":{}, "a":{}})"),
            "[header] key 'a' must be there once per object, is there twice");
  EXPECT_EQ(refused_header(R"({"__metadata__": {"a": 1}})"),
            "'__metadata__' must be an object of strings, 'a' is number");
  EXPECT_EQ(refused_header(R"({"__metadata__": []})"),
            "'__metadata__' must be an object of strings, is array");
}

TEST_F(Safetensors, RefusesWrongShapes) {
  EXPECT_EQ(refused_tensor("[-2]", "[0,8]"),
            "the shape of 'a' must be of whole numbers from 0, has -2");
  EXPECT_EQ(refused_tensor("[2.0]", "[0,8]"),
            "the shape of 'a' must be of whole numbers from 0, has 2.0");
  EXPECT_EQ(refused_tensor("2", "[0,8]"),
            "the shape of 'a' must be a list of at most 64 numbers");
  EXPECT_EQ(refused_tensor("[4294967296,4294967296]", "[0,8]"),
            "the shape of 'a' is too large: 4294967296 x 4294967296");
  EXPECT_EQ(refused_tensor("[4611686018427387904]", "[0,8]"),
            "the shape of 'a' is too large: 4611686018427387904");
  EXPECT_EQ(refused_tensor("[3]", "[0,8]"),
            "tensor 'a' (F32, 3) must have 12 bytes, has 8");
}

TEST_F(Safetensors, RefusesWrongOffsets) {
  EXPECT_EQ(refused_tensor("[2]", "[0,12]"),
            "the data_offsets of 'a' must be [begin, end] within 8 bytes, are "
            "[0,12]");
  EXPECT_EQ(refused_tensor("[2]", "[8,0]"),
            "the data_offsets of 'a' must be [begin, end] within 8 bytes, are "
            "[8,0]");
  EXPECT_EQ(refused_tensor("[2]", "[0]"),
            "the data_offsets of 'a' must be [begin, end] within 8 bytes, are "
            "[0]");
  EXPECT_EQ(refused_tensor("[1]", "[0,4]"),
            "the tensors must fill the file, they end at 4 of 8 bytes");
  EXPECT_EQ(refused_tensor("[1]", "[4,8]"),
            "tensor 'a' must begin at 0, where the one before it ends, begins "
            "at 4");
  EXPECT_EQ(
      refused_header(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      "tensor 'b' must begin behind the one before it, at 8, begins at 4");
}

TEST_F(Safetensors, RefusesEveryCut) {
  FakeWeights given;
  given.add("a", {2}).add("b", {3});
  write_safetensors(path_, given.get().tensors, {{"k", "v"}});
  const auto whole = read_bytes(path_);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(
        refused(std::string(whole.begin(),
                            whole.begin() + static_cast<std::ptrdiff_t>(n)))
            .empty());
  }
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { read_safetensors(folder_ / "none"); }),
            "[weights] '" + (folder_ / "none") +
                "' must be a file that can be read: No such file or directory");
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { read_safetensors(folder_.path()); }),
      "it is a directory");
}

}  // namespace
}  // namespace sluice
