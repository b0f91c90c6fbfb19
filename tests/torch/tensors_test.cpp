#include "sluice/torch/tensors.h"

#include "files.h"
#include "sluice/torch/models/model.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

TEST(Tensors, SurviveACheckpointBitForBit) {
  const TempFolder folder;
  NamedTensors tensors = {
      {"f32", torch::randn({3, 4})},
      {"f64", torch::randn({5}, torch::kFloat64)},
      {"f16", torch::randn({2, 2}).to(torch::kFloat16)},
      {"bf16", torch::randn({2, 2}).to(torch::kBFloat16)},
      {"i64", torch::tensor(std::int64_t{-7})},
      {"u8", torch::tensor({1, 2, 3}, torch::kUInt8)},
      {"bool", torch::tensor({true, false})},
      {"empty", torch::empty({0, 3})},
      {"transposed", torch::arange(6).reshape({2, 3}).t()},
      {"nan", torch::full({2}, std::nan(""))},
  };
  TensorStore store;
  store.add("a/", tensors);
  store.add("b/", {{"x", torch::ones({1})}});
  Checkpoint::write(folder / "c", "{}", store.stored());
  const Checkpoint read = Checkpoint::read(folder / "c");
  const NamedTensors back = tensors_of(read, "a/");
  ASSERT_EQ(back.size(), tensors.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(back[i].name, tensors[i].name);
    EXPECT_EQ(back[i].tensor.scalar_type(), tensors[i].tensor.scalar_type());
    EXPECT_TRUE(torch::equal(back[i].tensor.nan_to_num(42),
                             tensors[i].tensor.nan_to_num(42)))
        << back[i].name;
  }
  EXPECT_EQ(tensors_of(read, "b/").size(), 1U);
  EXPECT_EQ(tensors_of(read, "").size(), tensors.size() + 1);
}

TEST(Tensors, OfAModelComeBackWithItsBuffers) {
  const TempFolder folder;
  const ImageInput input = {3, 8, 8, 10};
  const auto trained = make_model_of<ImageModel>("resnet20", input, 1);
  trained->forward(torch::randn({4, 3, 8, 8}));  // moves running statistics
  trained->eval();
  TensorStore store;
  store.add("p/", parameters_of(*trained));
  store.add("b/", buffers_of(*trained));
  Checkpoint::write(folder / "c", "{}", store.stored());

  const auto fresh = make_model_of<ImageModel>("resnet20", input, 2);
  fresh->eval();
  const Checkpoint read = Checkpoint::read(folder / "c");
  copy_into("load_model", tensors_of(read, "p/"), parameters_of(*fresh));
  copy_into("load_model", tensors_of(read, "b/"), buffers_of(*fresh));
  const auto x = torch::randn({4, 3, 8, 8});
  EXPECT_TRUE(torch::equal(fresh->forward(x), trained->forward(x)));
}

TEST(Tensors, ThatDoNotFitAreNotCopied) {
  NamedTensors to = {{"a", torch::zeros({2})}, {"b", torch::zeros({3})}};
  EXPECT_EQ(message_of<Invalid>([&] {
              copy_into("load_model", {{"a", torch::ones({2})}}, to);
            }),
            "[load_model] there must be a tensor 'b', but it is missing; was "
            "it another model?");
  EXPECT_EQ(message_of<Invalid>([&] {
              copy_into("load_model",
                        {{"a", torch::ones({2})}, {"b", torch::ones({4})}}, to);
            }),
            "[load_model] tensor 'b' must be [3] of Float, got [4] of Float; "
            "was it another model?");
  EXPECT_EQ(to[0].tensor.abs().sum().item<float>(), 0);
}

TEST(Tensors, OfOtherTypesAreRefused) {
  TensorStore store;
  EXPECT_CONTAINS(
      message_of<Invalid>([&] {
        store.add("", {{"c", torch::ones({1}, torch::kComplexFloat)}});
      }),
      "cannot be stored");
}

}  // namespace
}  // namespace sluice::testing
