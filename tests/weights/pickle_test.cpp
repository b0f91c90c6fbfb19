#include "sluice/weights/pickle.h"

#include <gtest/gtest.h>

#include "files.h"
#include "weights/pickle_writer.h"

namespace sluice {
namespace {

using testing::message_of;
using namespace testing::pickles;
using namespace std::string_literals;
using Kind = Pickle::Kind;

Pickle read(const std::string& bytes) {
  return Pickle(std::as_bytes(std::span(bytes)));
}

std::string refused(const std::string& bytes) {
  return message_of<std::runtime_error>([&] { read(bytes); });
}

const Pickle::Value& value_at(const Pickle& pickle, std::size_t i) {
  return pickle.at(pickle.root().items.at(i));
}

TEST(Pickle, ReadsPlainValues) {
  const Pickle pickle =
      read(whole("(K\xff"
                 "M\x01\x02"
                 "J\xfe\xff\xff\xff"
                 "\x8a\x02\x00\x80"s +
                 "\x88\x89NG\x3f\xe0\0\0\0\0\0\0\x8c\x02hi](K\1eK\2a\x8a\0t"s));
  ASSERT_EQ(pickle.root().kind, Kind::kTuple);
  EXPECT_EQ(value_at(pickle, 0).number, 255);
  EXPECT_EQ(value_at(pickle, 1).number, 513);
  EXPECT_EQ(value_at(pickle, 2).number, -2);
  EXPECT_EQ(value_at(pickle, 3).number, -32768);
  EXPECT_EQ(value_at(pickle, 4).number, 1);
  EXPECT_EQ(value_at(pickle, 5).kind, Kind::kBool);
  EXPECT_EQ(value_at(pickle, 6).kind, Kind::kNone);
  EXPECT_EQ(value_at(pickle, 7).real, 0.5);
  EXPECT_EQ(value_at(pickle, 8).text, "hi");
  EXPECT_EQ(value_at(pickle, 9).items.size(), 2U);
  EXPECT_EQ(value_at(pickle, 10).number, 0);
}

TEST(Pickle, ReadsTensorsAndParameters) {
  const std::string made =
      tensor(storage("FloatStorage", "7", 6), 1, {2, 2}, {3, 1});
  for (const std::string& bytes :
       {made, global("torch._utils", "_rebuild_parameter") + "(" + made +
                  "\x88" + global("collections", "OrderedDict") + ")RtR"}) {
    const Pickle pickle = read(whole(bytes));
    ASSERT_EQ(pickle.root().kind, Kind::kTensor);
    EXPECT_EQ(pickle.root().number, 1);
    const Pickle::Value& of = value_at(pickle, 0);
    EXPECT_EQ(of.kind, Kind::kStorage);
    EXPECT_EQ(of.number, 6);
    EXPECT_EQ(pickle.at(of.items[0]).text, "torch FloatStorage");
    EXPECT_EQ(pickle.at(of.items[1]).text, "7");
  }
}

TEST(Pickle, KeepsValuesInItsMemo) {
  const Pickle pickle =
      read(whole("(" + text("a") + "q\0K\1\x94h\0j\1\0\0\0t"s));
  ASSERT_EQ(pickle.root().items.size(), 4U);
  EXPECT_EQ(value_at(pickle, 2).text, "a");
  EXPECT_EQ(value_at(pickle, 3).number, 1);
  EXPECT_EQ(refused(whole("h\0"s)), "slot 0 of the memo must have a value");
  EXPECT_EQ(
      refused(whole("Nr\xff\xff\xff\xff")),
      "slots of the memo must be used in order, 4294967295 comes after 0");
  EXPECT_EQ(refused(whole("(q\0"s)), "the memo must not be given a mark");
}

TEST(Pickle, NeverCallsAnything) {
  const std::string advice =
      "; save the weights alone: torch.save(model.state_dict(), PATH)";
  EXPECT_EQ(refused(whole(global("posix", "system") + text("ls") + "\x85R")),
            "the pickle names 'posix system', which is not of a state_dict and "
            "is never called" +
                advice);
  EXPECT_EQ(
      refused(whole(text("builtins") + text("eval") + "\x93")),
      "the pickle names 'builtins eval', which is not of a state_dict and "
      "is never called" +
          advice);
  EXPECT_EQ(
      refused(whole("(ios\nsystem\n")),
      "the pickle has the opcode INST (0x69), which a state_dict does not "
      "need" +
          advice);
  EXPECT_EQ(
      refused(whole("\x82\x01")),
      "the pickle has the opcode EXT1 (0x82), which a state_dict does not "
      "need" +
          advice);
  EXPECT_EQ(refused(whole("\x07")),
            "the pickle has the opcode 0x07, which a state_dict does not need" +
                advice);
  EXPECT_EQ(refused(whole(global("torch", "FloatStorage") + ")R")),
            "REDUCE of 'torch FloatStorage' with 0 arguments is not of a "
            "state_dict" +
                advice);
  EXPECT_CONTAINS(refused(whole(global("a\x01", std::string(200, 'x')))),
                  "the pickle names 'a? xxxx");
}

TEST(Pickle, RefusesWhatDoesNotEndOrFit) {
  EXPECT_EQ(refused(""), "the pickle ends too early");
  EXPECT_EQ(refused("\x80\x02"), "the pickle ends too early");
  EXPECT_EQ(refused("\x80\x01."),
            "the pickle must be of protocol 2 to 5, is of 1");
  EXPECT_EQ(refused(whole("")), "the pickle takes a value that is not there");
  EXPECT_EQ(refused(whole("NN")), "the pickle must leave one value, leaves 2");
  EXPECT_EQ(refused(whole("X\xff\xff\xff\xff")), "the pickle ends too early");
  EXPECT_EQ(refused("ctorch"), "the pickle ends within a line");
  EXPECT_EQ(refused(whole("t")), "the pickle takes values without a mark");
  EXPECT_EQ(refused(whole("(s")), "the pickle takes a value that is not there");
  EXPECT_EQ(refused(whole("NNNs")), "SETITEM must find a dict");
  EXPECT_EQ(refused(whole("}(Nu")),
            "SETITEMS must find keys and values in pairs");
  EXPECT_EQ(refused(whole("NNa")), "APPEND must find a list");
  EXPECT_EQ(refused(whole("NNb")), "BUILD must find an OrderedDict");
  EXPECT_EQ(refused(whole("NNR")), "REDUCE must find a global and a tuple");
  EXPECT_EQ(refused(whole("\x8a\x09")),
            "numbers must have at most 8 bytes, one has 9");
  EXPECT_EQ(refused(whole("NQ")),
            "BINPERSID must find ('storage', type, key, "
            "location, elements)");
  EXPECT_EQ(refused(whole(global("torch._utils", "_rebuild_tensor_v2") + ")R")),
            "_rebuild_tensor_v2 must have a storage, an offset, sizes and "
            "strides");
}

TEST(Pickle, MakesNoMoreValuesThanASensibleNumber) {
  std::string many((std::size_t{1} << 22) + 1, 'N');
  EXPECT_EQ(refused(whole(many)),
            "the pickle must make at most 4194304 values, makes more");
}

}  // namespace
}  // namespace sluice
