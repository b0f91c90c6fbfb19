#include <gtest/gtest.h>

#include <filesystem>

#include "files.h"
#include "sluice/weights/safetensors.h"
#include "sluice/weights/weight_index.h"
#include "sluice/weights/weights.h"
#include "weights/pickle_writer.h"
#include "weights/weight_files.h"
#include "weights/zip_writer.h"

namespace sluice {
namespace {

using testing::FakeWeights;
using testing::message_of;
using testing::TempFolder;
using testing::write_file;

class WeightsFolder : public ::testing::Test {
 protected:
  void shard(const std::string& file, std::vector<std::string> names) {
    FakeWeights given;
    for (const std::string& name : names) given.add(name, {2});
    write_safetensors(folder_ / file, given.get().tensors, {});
  }
  void index(const std::string& map) {
    write_file(folder_ / "model.safetensors.index.json",
               R"({"metadata": {"total_size": 1}, "weight_map": )" + map + "}");
  }
  std::string refused(const std::string& path) {
    return message_of<std::runtime_error>([&] { open_weights(path); });
  }
  std::string refused() { return refused(folder_.path()); }

  TempFolder folder_;
};

TEST_F(WeightsFolder, TellsFilesByContent) {
  shard("anything.bin", {"a"});
  EXPECT_EQ(open_weights(folder_ / "anything.bin").format, "safetensors");
  namespace p = testing::pickles;
  testing::ZipWriter zip;
  zip.add("m/data.pkl",
          p::whole(p::dict(
              {p::text("w"),
               p::tensor(p::storage("ByteStorage", "0", 2), 0, {2}, {1})})));
  zip.add("m/data/0", "ab");
  write_file(folder_ / "model.pt", zip.str());
  EXPECT_EQ(open_weights(folder_ / "model.pt").format, "torch.save");
  std::filesystem::rename(folder_ / "model.pt", folder_ / "pytorch_model.bin");
  EXPECT_EQ(open_weights(folder_.path()).tensors.size(), 1U);
}

TEST_F(WeightsFolder, SaysWhatElseAFileMayBe) {
  const std::string path = folder_ / "w.bin";
  const auto text = [&](std::string_view bytes) {
    write_file(path, bytes);
    return refused(path).substr(("[weights] '" + path + "' ").size());
  };
  EXPECT_EQ(text("\x80\x02\x8a\x0al\xfc\x9c"
                 "F\xf9 j\xa8P\x19."),
            "is of torch.save before 1.6, which is not read; in Python: "
            "torch.save(torch.load(PATH), NEW) with torch 1.6 or newer");
  EXPECT_EQ(text("version https://git-lfs.github.com/spec/v1\n"),
            "only says where git lfs keeps the file; run git lfs pull");
  EXPECT_EQ(text("<html>"),
            "must be a file of safetensors or of torch.save, or a folder with "
            "one, is neither");
  EXPECT_EQ(text(""),
            "must be a file of safetensors or of torch.save, or a folder with "
            "one, is neither");
}

TEST_F(WeightsFolder, ReadsModelAndConfig) {
  shard("model.safetensors", {"a", "b"});
  EXPECT_FALSE(open_weights(folder_.path()).config.has_value());
  write_file(folder_ / "config.json", R"({"model_type": "bert"})");
  const Weights weights = open_weights(folder_.path());
  EXPECT_EQ(weights.path, folder_.path());
  EXPECT_EQ(weights.config->model_type, "bert");
  write_file(folder_ / "config.json", "[]");
  EXPECT_EQ(refused(), "[weights] '" + (folder_ / "config.json") +
                           "' must be a config.json of Hugging Face, but: it "
                           "must be an object, is array");
}

TEST_F(WeightsFolder, ReadsShards) {
  shard("m-1.safetensors", {"a", "b"});
  shard("m-2.safetensors", {"c"});
  index(R"({"a": "m-1.safetensors", "b": "m-1.safetensors",)"
        R"( "c": "m-2.safetensors"})");
  const Weights weights = open_weights(folder_.path());
  EXPECT_EQ(weights.format, "safetensors in 2 shards");
  EXPECT_EQ(weights.tensors.size(), 3U);
  EXPECT_NE(weights.find("c"), nullptr);
}

TEST_F(WeightsFolder, RefusesAnIndexThatItsShardsContradict) {
  const std::string where =
      "[weights] '" + (folder_ / "model.safetensors.index.json") + "' ";
  shard("m-1.safetensors", {"a", "b"});
  shard("m-2.safetensors", {"b", "c"});
  index(R"({"a": "m-1.safetensors", "x": "m-1.safetensors"})");
  EXPECT_EQ(refused(), where +
                           "says that 'x' is in 'm-1.safetensors', which "
                           "does not have it; download both anew");
  index(R"({"a": "m-1.safetensors"})");
  EXPECT_EQ(refused(), where +
                           "must say that 'b' is in 'm-1.safetensors', says "
                           "nothing; download both anew");
  index(R"({"a": "m-1.safetensors", "b": "m-1.safetensors",)"
        R"( "c": "m-2.safetensors"})");
  EXPECT_EQ(refused(), where +
                           "must say that 'b' is in 'm-2.safetensors', says "
                           "'m-1.safetensors'; download both anew");
  index(R"({"a": "m-3.safetensors"})");
  EXPECT_EQ(refused(), "[weights] '" + (folder_ / "m-3.safetensors") +
                           "' must be a file that can be read: No such file or "
                           "directory");
}

TEST_F(WeightsFolder, RefusesAFolderWithoutWeights) {
  EXPECT_EQ(refused(),
            "[weights] folder '" + folder_.path() +
                "' must have model.safetensors, model.safetensors.index.json, "
                "pytorch_model.bin or pytorch_model.bin.index.json, has none; "
                "name the file itself if it is called otherwise");
}

std::string refused_index(std::string_view text) {
  return message_of<std::runtime_error>([&] { parse_weight_index("i", text); });
}

TEST(WeightIndex, RefusesShardsOutsideItsFolder) {
  const std::string before =
      "[weights] 'i' must be an index of shards, but: a shard must be the name "
      "of a file beside the index, without / and not hidden, is '";
  for (const std::string name : {"../a", "/etc/passwd", "..", "a\\\\b", ""}) {
    std::string shown = name == "a\\\\b" ? "a\\b" : name;
    EXPECT_EQ(refused_index(R"({"weight_map": {"a": ")" + name + "\"}}"),
              before + shown + "'");
  }
  EXPECT_CONTAINS(refused_index(R"({"weight_map": {"a": "b\u0000c"}})"),
                  before + "b");
}

TEST(WeightIndex, RefusesWhatIsNone) {
  const std::string none =
      "[weights] 'i' must be an index of shards, but: it must have an object "
      "'weight_map' with names of tensors";
  EXPECT_EQ(refused_index("[]"), none);
  EXPECT_EQ(refused_index("{}"), none);
  EXPECT_EQ(refused_index(R"({"weight_map": {}})"), none);
  EXPECT_EQ(refused_index(R"({"weight_map": {"a": 1}})"),
            "[weights] 'i' must be an index of shards, but: the shard of 'a' "
            "must be a text, is 1");
  EXPECT_CONTAINS(refused_index(R"({"weight_map": {"a": "x", "a": "y"}})"),
                  "key 'a' must be there once per object");
}

}  // namespace
}  // namespace sluice
