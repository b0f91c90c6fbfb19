#include "sluice/run/planning.h"

#include <gtest/gtest.h>

#include "sluice/config/recipe.h"
#include "sluice/run/summary.h"

namespace sluice {
namespace {

// A bias, which stays dense, and matrices of 100 and 300 elements.
double share(const std::vector<BucketPlan>& buckets) {
  const std::vector<TensorInfo> tensors = {
      {"b", {10}}, {"v", {10, 10}}, {"w", {30, 10}}};
  const std::vector<Treatment> treatments = {{.dense = true}, {}, {}};
  const std::vector<std::string> names = {"b", "v", "w"};
  return share_sent_whole({"test", false, buckets},
                          {tensors, treatments, names});
}

BucketPlan bucket(std::vector<std::size_t> tensors, std::string sparsifier,
                  Piece piece = {}) {
  BucketPlan b;
  b.tensors = std::move(tensors);
  b.sparsifier = std::move(sparsifier);
  b.piece = piece;
  return b;
}

TEST(ShareSentWhole, CountsElementsThatWereToBeSelected) {
  EXPECT_EQ(share({bucket({2, 1}, "topk"), bucket({0}, "none")}), 0);
  EXPECT_EQ(share({bucket({2}, "topk"), bucket({1, 0}, "none")}), 0.25);
  EXPECT_EQ(share({bucket({2, 1, 0}, "none")}), 1);
  // Ten of thirty rows of w.
  EXPECT_EQ(share({bucket({2}, "none", {0, 3}), bucket({2}, "topk", {1, 3}),
                   bucket({2}, "topk", {2, 3}), bucket({1}, "topk"),
                   bucket({0}, "none")}),
            0.25);
}

TEST(DenseLabel, IsOfRunsThatAreMostlyDense) {
  EXPECT_EQ(dense_label(0), "");
  EXPECT_EQ(dense_label(0.5), "");
  EXPECT_EQ(dense_label(0.75), "trained 75 % dense");
  EXPECT_EQ(dense_label(0.9999), "trained 99 % dense");
  EXPECT_EQ(dense_label(1), "trained dense");
}

TEST(ChooseRecipe, KnowsDenseByAnySpelling) {
  for (const char* text :
       {"none", R"({"name": "none"})", "{\"name\":\"none\"}"}) {
    TrainConfig config;
    config.sparsifier = text;
    choose_recipe(config);
    EXPECT_EQ(config.sparsifier, "none");
    EXPECT_EQ(config.optimizer, "sgd:momentum=0.9");
  }
  // Refused where it is made.
  for (const char* text : {"{", R"({"name": "none", "k": 1})", "nonee"}) {
    TrainConfig config;
    config.sparsifier = text;
    choose_recipe(config);
    EXPECT_EQ(config.sparsifier, text);
  }
}

}  // namespace
}  // namespace sluice
