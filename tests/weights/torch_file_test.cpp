#include "sluice/weights/torch_file.h"

#include <gtest/gtest.h>

#include "files.h"
#include "weights/pickle_writer.h"
#include "weights/weight_files.h"
#include "weights/zip_writer.h"

namespace sluice {
namespace {

using testing::floats_of;
using testing::message_of;
using testing::TempFolder;
using testing::write_file;
using testing::ZipWriter;
using namespace testing::pickles;

class TorchFile : public ::testing::Test {
 protected:
  // A file whose storage "0" holds 0, 1, 2, 3, 4, 5.
  Weights read(const std::string& root) {
    ZipWriter zip;
    zip.zip64 = true;
    const float values[] = {0, 1, 2, 3, 4, 5};
    zip.add("m/data.pkl", whole(root));
    zip.add("m/byteorder", order_);
    zip.add("m/data/0",
            {reinterpret_cast<const char*>(values), sizeof(values)});
    if (script_) zip.add("m/constants.pkl", "");
    write_file(path_, zip.str());
    return read_torch_file(path_);
  }
  std::string refused(const std::string& root) {
    const std::string before =
        "[weights] '" + path_ + "' must be a state_dict of torch.save, but: ";
    const std::string message =
        message_of<std::runtime_error>([&] { read(root); });
    EXPECT_TRUE(message.starts_with(before)) << message;
    return message.substr(std::min(before.size(), message.size()));
  }
  std::string refused_tensor(std::int64_t offset,
                             std::initializer_list<std::int64_t> sizes,
                             std::initializer_list<std::int64_t> strides) {
    return refused(dict({text("w"), tensor(floats_, offset, sizes, strides)}));
  }

  TempFolder folder_;
  std::string path_ = folder_ / "m.bin";
  std::string floats_ = storage("FloatStorage", "0", 6);
  std::string row_ = tensor(floats_, 0, {6}, {1});
  std::string order_ = "little";
  bool script_ = false;
};

TEST_F(TorchFile, ReadsTensorsOfAnyStrides) {
  const Weights read_back = read(dict(
      {text("plain"), tensor(floats_, 0, {2, 3}, {3, 1}), text("turned"),
       tensor(floats_, 0, {3, 2}, {1, 3}), text("column"),
       tensor(floats_, 1, {2}, {3}), text("one"), tensor(floats_, 5, {}, {}),
       text("none"), tensor(floats_, 0, {0, 3}, {3, 1})}));
  EXPECT_EQ(read_back.format, "torch.save");
  const auto values = [&](std::string_view name) {
    return floats_of(*read_back.find(name));
  };
  using List = std::vector<float>;
  EXPECT_EQ(values("plain"), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values("turned"), (List{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(read_back.find("turned")->dims, (Dims{3, 2}));
  EXPECT_EQ(values("column"), (List{1, 4}));
  EXPECT_EQ(values("one"), (List{5}));
  EXPECT_EQ(values("none"), List{});
}

TEST_F(TorchFile, FindsTheDictWithTheWeightsAndSaysSo) {
  const Weights weights =
      read(dict({text("epoch"), number(3), text("optimizer"),
                 dict({text("lr"), number(1)}), text("model"),
                 dict({text("w"), row_, text("kind"), text("x")}), text("ema"),
                 dict({text("v"), row_})}));
  ASSERT_EQ(weights.tensors.size(), 1U);
  EXPECT_EQ(weights.tensors[0].name, "w");
  EXPECT_EQ(weights.notes, (std::vector<std::string>{
                               "took the tensors of its 'model'",
                               "passed over 1 entries that are no tensors"}));
  EXPECT_EQ(read(dict({text("other"), dict({text("w"), row_})})).notes,
            (std::vector<std::string>{"took the tensors of its 'other'"}));
  EXPECT_EQ(refused(dict({text("a"), dict({text("w"), row_}), text("b"),
                          dict({text("w"), row_})})),
            "one of its dicts must be named state_dict or model, it has: a b");
}

TEST_F(TorchFile, TakesThePrefixOfParallelModulesOff) {
  const Weights weights =
      read(dict({text("module.a"), row_, text("module.b"), row_}));
  EXPECT_NE(weights.find("a"), nullptr);
  EXPECT_EQ(weights.notes,
            (std::vector<std::string>{"took 'module.' off all names"}));
}

TEST_F(TorchFile, RefusesTensorsOutsideTheirStorage) {
  const std::string outside =
      "tensor 'w' must lie within its storage of 6 elements";
  EXPECT_EQ(refused_tensor(0, {7}, {1}), outside);
  EXPECT_EQ(refused_tensor(1, {6}, {1}), outside);
  EXPECT_EQ(refused_tensor(-1, {1}, {1}), outside);
  EXPECT_EQ(refused_tensor(0, {2, 3}, {4, 1}), outside);
  EXPECT_EQ(refused_tensor(0, {2}, {2147483647}), outside);
  EXPECT_EQ(refused_tensor(7, {0}, {1}), outside);
  EXPECT_EQ(refused_tensor(0, {-1}, {1}),
            "sizes and strides of 'w' must be whole numbers from 0");
  EXPECT_EQ(refused_tensor(0, {1, 2}, {1}),
            "tensor 'w' must have as many strides as dimensions, has 1 and 2");
  EXPECT_EQ(
      refused_tensor(0, {1000000}, {0}),
      "tensor 'w' (1000000) must not have more elements than its storage, "
      "which has 6; save it as .contiguous()");
}

TEST_F(TorchFile, RefusesWrongStorages) {
  EXPECT_EQ(refused(dict({text("w"), tensor(storage("FloatStorage", "0", 7), 0,
                                            {1}, {1})})),
            "the storage of 'w' must have 7 elements, has 6");
  EXPECT_EQ(refused(dict({text("w"), tensor(storage("FloatStorage", "../0", 1),
                                            0, {1}, {1})})),
            "entry 'm/data/../0' must be there, is not");
}

TEST_F(TorchFile, RefusesWhatIsNoStateDict) {
  const std::string advice =
      "; in Python: torch.save(model.state_dict(), PATH)";
  EXPECT_EQ(refused("N"), "it must hold a state_dict" + advice);
  EXPECT_EQ(refused("}"), "it has no tensors" + advice);
  EXPECT_EQ(refused(dict({number(1), row_})), "names of tensors must be texts");
  order_ = "big";
  EXPECT_EQ(
      refused(dict({text("w"), row_})),
      "its byteorder must be little, is 'big'; save it on a little endian "
      "machine");
  order_ = "little";
  script_ = true;
  EXPECT_CONTAINS(refused(dict({text("w"), row_})),
                  "it is a TorchScript program, not a state_dict");
}

TEST_F(TorchFile, RefusesANameThatIsThereTwice) {
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              read(dict({text("w"), row_, text("w"), row_}));
            }),
            "[weights] '" + path_ +
                "': tensor 'w' must be there once, is there twice; save the "
                "file anew");
}

TEST_F(TorchFile, SurvivesCyclesAndManyCopies) {
  // A list that holds itself, as a value of the dict.
  EXPECT_EQ(read(dict({text("w"), row_, text("l"), std::string("]q\0h\0a", 6)}))
                .tensors.size(),
            1U);
  std::string many = "}(";
  const std::string turned = tensor(floats_, 0, {3, 2}, {1, 3});
  for (int i = 0; i < 20'000; ++i) {
    many += text(std::to_string(i)) + turned;
  }
  // Its pickle is larger than its copies: nothing to refuse.
  EXPECT_EQ(read(many + "u").tensors.size(), 20'000U);
}

}  // namespace
}  // namespace sluice
