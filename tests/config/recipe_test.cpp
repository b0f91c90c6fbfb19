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

TrainConfig job_of(const std::string& model, const std::string& sparsifier,
                   const std::string& feedback = "residual",
                   const std::string& optimizer = "auto") {
  TrainConfig config;
  config.model = model;
  config.sparsifier = sparsifier;
  config.feedback = feedback;
  config.optimizer = optimizer;
  choose_recipe(config);
  return config;
}

TEST(Recipe, ModelsHaveTheirOwn) {
  const TrainConfig lstm = job_of("lstm:hidden=500", "none");
  expect(lstm, "sgd:momentum=0", 22);
  EXPECT_EQ(lstm.clip, 0.25);
  expect(job_of("lstm", "topk"), "sgd:momentum=0", 22);
  // The feedback's momentum of 0.9 reaches as far with a tenth of the rate.
  expect(job_of("lstm", "topk", "dgc"), "sgd:momentum=0", 2.2);
  expect(job_of("deepspeech", "none"), "sgd:momentum=0.9", 0.0003);
  expect(job_of("deepspeech", "topk"), "sgd:momentum=0", 0.003);
  EXPECT_EQ(job_of("deepspeech", "topk").clip, 400);
  expect(job_of("gpt2", "none"),
         "adamw:beta2=0.95,weight_decay=0.1,decay_1d=false", 0.0006);
  expect(job_of("gpt2", "topk"),
         "adamw:beta2=0.95,weight_decay=0.1,decay_1d=false,beta1=0", 0.0006);
  expect(job_of(R"({"name": "bert-base", "layers": 2})", "topk", "dgc"),
         "adamw:epsilon=0.000001,weight_decay=0.01,decay_1d=false,beta1=0",
         0.0001);
  for (const ModelRecipe& recipe : model_recipes()) {
    EXPECT_FALSE(recipe.source.empty());
    const std::string model(recipe.prefix.empty() ? "mlp" : recipe.prefix);
    for (const char* sparsifier : {"none", "topk"}) {
      const TrainConfig chosen = job_of(model, sparsifier);
      EXPECT_EQ(recipe_note(chosen), "") << model;
      EXPECT_EQ(chosen.lr_schedule, recipe.lr_schedule);
      EXPECT_NO_THROW(check_config(chosen)) << model;
    }
  }
}

TEST(Recipe, OptimizersOfAnotherKindHaveUsualRates) {
  const auto rate = [](const char* model, const char* optimizer) {
    return job_of(model, "none", "residual", optimizer).lr;
  };
  EXPECT_EQ(rate("gpt2", "adam"), 0.0006);
  EXPECT_EQ(rate("gpt2", "bertadam"), 0.0006);
  EXPECT_EQ(rate("gpt2", "lamb"), 0.001);
  EXPECT_EQ(rate("gpt2", "sgd"), 0.05);
  EXPECT_EQ(rate("lstm", "adam"), 0.001);
  EXPECT_EQ(rate("lstm", "sgd"), 2.2);
  // What belongs to the recipe does not come without it.
  const TrainConfig own = job_of("lstm", "none", "residual", "adam");
  EXPECT_EQ(own.clip, 0);
  EXPECT_EQ(own.lr_schedule, "cosine:warmup=1,warmup_most=0.2");
}

TEST(Recipe, LosingCombinationsGetANote) {
  EXPECT_CONTAINS(recipe_note(job("topk", "residual", "sgd", 0.02)),
                  "--optimizer sgd:momentum=0 --lr 0.2 does not");
  EXPECT_CONTAINS(recipe_note(job("topk", "residual", "adamw")),
                  "--optimizer adamw:beta1=0 does not");
  EXPECT_CONTAINS(recipe_note(job("topk", "residual", "lamb")),
                  "--optimizer lamb:beta1=0 does not");
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
