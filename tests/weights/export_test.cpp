#include "sluice/weights/export.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <numeric>

#include "files.h"
#include "sluice/weights/import.h"
#include "sluice/weights/safetensors.h"
#include "weights/weight_files.h"

namespace sluice {
namespace {

using testing::floats_of;
using testing::message_of;
using testing::TempFolder;
using List = std::vector<float>;

class Export : public ::testing::Test {
 protected:
  void add(const std::string& name, const Dims& dims) {
    List& values =
        values_.emplace_back(static_cast<std::size_t>(*elements_of(dims)));
    std::iota(values.begin(), values.end(),
              static_cast<float>(100 * values_.size()));
    tensors_.push_back({{name, dims}, values});
  }
  std::vector<std::string> write(const ExportOptions& options) {
    return export_weights(path_, options, tensors_);
  }
  // Imports what was written, and compares.
  void expect_return(const std::string& kind) {
    std::vector<TensorSpec> specs;
    for (const NamedValues& tensor : tensors_) specs.push_back(tensor.spec);
    const Weights file = open_weights(path_);
    const ImportPlan plan = plan_import(kind, specs, file);
    EXPECT_TRUE(plan.report.unused.empty());
    ASSERT_EQ(plan.assignments.size(), tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      List back(tensors_[i].values.size());
      materialize(plan.assignments[i], back);
      EXPECT_TRUE(
          std::equal(back.begin(), back.end(), tensors_[i].values.begin()))
          << tensors_[i].spec.name;
    }
  }

  TempFolder folder_;
  std::string path_ = folder_ / "model.safetensors";
  std::deque<List> values_;
  std::vector<NamedValues> tensors_;
};

TEST_F(Export, SplitsWhatImportJoins) {
  add("blocks.0.attn.qkv.weight", {6, 2});
  add("blocks.0.attn.qkv.bias", {6});
  add("head.weight", {10, 2});
  EXPECT_TRUE(write({.kind = "vit", .dialect = {}, .metadata = {}}).empty());
  const Weights file = open_weights(path_);
  EXPECT_EQ(file.tensors.size(), 7U);
  const auto* key =
      file.find("vit.encoder.layer.0.attention.attention.key.weight");
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(key->dims, (Dims{2, 2}));
  EXPECT_EQ(floats_of(*key), (List{104, 105, 106, 107}));
  EXPECT_EQ(file.metadata.at("format"), "pt");
  expect_return("vit");
  write({.kind = "vit", .dialect = "timm", .metadata = {}});
  EXPECT_NE(open_weights(path_).find("blocks.0.attn.qkv.weight"), nullptr);
  expect_return("vit");
}

TEST_F(Export, TransposesWhatImportTransposes) {
  add("transformer.wte.weight", {3, 2});
  add("transformer.h.0.mlp.c_fc.weight", {8, 2});
  add("transformer.h.0.mlp.c_fc.bias", {8});
  add("transformer.h.0.attn.c_proj.weight", {70, 40});
  write({.kind = "gpt2", .dialect = {}, .metadata = {{"step", "5"}}});
  const Weights file = open_weights(path_);
  EXPECT_EQ(file.find("transformer.h.0.mlp.c_fc.weight")->dims, (Dims{2, 8}));
  EXPECT_EQ(file.metadata.at("step"), "5");
  expect_return("gpt2");
}

TEST_F(Export, CutsThePaddingOfAVocabulary) {
  add("bert.embeddings.word_embeddings.weight", {5, 2});
  add("qa_outputs.bias", {2});
  EXPECT_EQ(
      write({.kind = "bert", .dialect = {}, .vocabulary = 3, .metadata = {}}),
      (std::vector<std::string>{
          "'bert.embeddings.word_embeddings.weight': the last 2 of 5 rows "
          "left out"}));
  const Weights file = open_weights(path_);
  EXPECT_EQ(floats_of(*file.find("bert.embeddings.word_embeddings.weight")),
            (List{100, 101, 102, 103, 104, 105}));
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] {
        write({.kind = "bert", .dialect = {}, .vocabulary = 6, .metadata = {}});
      }),
      "[export] the vocabulary must be from 1 to 5, the rows of "
      "'bert.embeddings.word_embeddings.weight', got 6");
}

TEST_F(Export, RefusesWhatItCannotName) {
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              write({.kind = "vit", .dialect = "keras", .metadata = {}});
            }),
            "[export] no names of 'keras' for a vit; known: huggingface timm");
  add("blocks.0.attn.qkv.bias", {5});
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { write({.kind = "vit", .dialect = {}, .metadata = {}}); }),
            "[export] 'vit.encoder.layer.0.attention.attention.query.bias' and "
            "others must be 3 equal parts of 5");
}

TEST_F(Export, RefusesValuesThatAreNotFinite) {
  add("fc.bias", {3});
  values_.back()[2] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(
      message_of<std::runtime_error>([&] {
        write({.kind = "torchvision", .dialect = {}, .metadata = {}});
      }),
      "[export] tensor 'fc.bias' must be finite, element 2 is inf; export "
      "an earlier checkpoint");
  tensors_[0].values = tensors_[0].values.first(2);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              write({.kind = "torchvision", .dialect = {}, .metadata = {}});
            }),
            "[export] 'fc.bias' (3) must have as many values, has 2");
}

}  // namespace
}  // namespace sluice
