#include "sluice/config/recipe.h"

#include <gtest/gtest.h>

#include "files.h"

namespace sluice::testing {
namespace {

TrainConfig job(const std::string& sparsifier, const std::string& feedback,
                const std::string& optimizer = "auto", double lr = 0) {
  TrainConfig config;
  config.sparsifier = sparsifier;
  config.feedback = feedback;
  config.optimizer = optimizer;
  config.lr = lr;
  choose_recipe(config);
  return config;
}

void expect(const TrainConfig& config, const std::string& optimizer,
            double lr) {
  EXPECT_EQ(config.optimizer, optimizer);
  EXPECT_EQ(config.lr, lr);
}

TEST(Recipe, DefaultsPutMomentumWhereItHelps) {
  expect(job("none", "residual"), "sgd:momentum=0.9", 0.05);
  expect(job("topk", "residual"), "sgd:momentum=0", 0.5);
  expect(job("topk", "none"), "sgd:momentum=0", 0.5);
  expect(job("topk", "dgc"), "sgd:momentum=0", 0.05);
  expect(job("none", "dgc:momentum=0.8"), "sgd:momentum=0", 0.1);
  for (const char* feedback : {"residual", "dgc"}) {
    EXPECT_EQ(recipe_note(job("topk", feedback)), "");
  }
}

TEST(Recipe, WhatIsGivenStays) {
  expect(job("topk", "residual", "sgd:momentum=0.9", 0.1), "sgd:momentum=0.9",
         0.1);
  expect(job("topk", "residual", "auto", 0.1), "sgd:momentum=0", 0.1);
  expect(job("topk", "residual", "sgd"), "sgd", 0.05);
  expect(job("topk", "residual", "adam"), "adam", 0.001);
}

TEST(Recipe, LosingCombinationsGetANote) {
  EXPECT_CONTAINS(recipe_note(job("topk", "residual", "sgd", 0.02)),
                  "--optimizer sgd:momentum=0 --lr 0.2 does not");
  EXPECT_CONTAINS(recipe_note(job("topk", "residual", "adamw")),
                  "--optimizer adamw:beta1=0 does not");
  EXPECT_CONTAINS(recipe_note(job("topk", "dgc", "sgd")),
                  "on top of the momentum of feedback dgc");
  EXPECT_EQ(recipe_note(job("none", "residual", "sgd")), "");
  EXPECT_EQ(recipe_note(job("topk", "residual", "adam:beta1=0")), "");
}

// topk with this feedback and the recipe of `dense`.
TrainConfig taken(const std::string& feedback, const TrainConfig& dense) {
  TrainConfig config = job("topk", feedback);
  take_recipe(config, dense);
  return config;
}

TEST(Recipe, MovesMomentumForAMethod) {
  const TrainConfig dense =
      job("none", "residual",
          "sgd:momentum=0.8,nesterov=true,weight_decay=0.001", 0.1);
  expect(taken("residual", dense), "sgd:weight_decay=0.001,momentum=0", 0.5);
  const TrainConfig dgc = taken("dgc:clip=1", dense);
  expect(dgc, "sgd:momentum=0,weight_decay=0.005", 0.1);
  EXPECT_EQ(dgc.feedback, "dgc:clip=1,momentum=0.8,nesterov=true");
  // And back.
  TrainConfig again = job("none", "residual");
  take_recipe(again, dgc);
  expect(again, "sgd:momentum=0.8,nesterov=true,weight_decay=0.001", 0.1);
}

TEST(Recipe, AdamHasItsMomentumInBeta1) {
  const TrainConfig dense = job("none", "residual", "adam", 0.002);
  expect(taken("residual", dense), "adam:beta1=0", 0.002);
  const TrainConfig dgc = taken("dgc", dense);
  expect(dgc, "adam:beta1=0", 0.002);
  EXPECT_EQ(dgc.feedback, "dgc:momentum=0");
}

TEST(Recipe, ForcesMomentumAnywhere) {
  TrainConfig plain = job("topk", "residual");
  force_recipe(plain, {.momentum = 0.9, .lr = 0.02});
  expect(plain, "sgd:momentum=0.9", 0.02);
  EXPECT_NE(recipe_note(plain), "");
}

}  // namespace
}  // namespace sluice::testing
