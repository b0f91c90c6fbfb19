#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sluice/config/config.h"

// Which optimizer and rate go with which model and which feedback.
//
// An entry that plain residuals deliver carries the gradients of many steps at
// once; momentum in the optimizer would go on repeating it. So momentum belongs
// into the optimizer where everything is sent, before the selection with
// feedback `dgc`, and nowhere with plain residuals, whose rate is then
// 1 / (1 - momentum) times as high. The same holds for Adam, whose momentum is
// beta1; its rate stays, as it divides by the size of what arrives. An entry
// that arrives every T steps moves by sqrt((1 - beta2^T) / (1 - beta2)) times
// the rate at each arrival: sqrt(T), as sums of T noisy gradients grow, up to a
// T of 1 / (1 - beta2) steps, and no further. So Adam wants a density above 1 -
// beta2.

namespace sluice {

// What `sgd` has unless its parameters say otherwise.
inline constexpr double kSgdMomentum = 0.9;
inline constexpr double kAdamBeta1 = 0.9;  // and `adam` and its relatives

// In terms of SGD that sends everything.
struct Recipe {
  double momentum = kSgdMomentum;
  bool nesterov = false;
  double lr = 0.05;
  double weight_decay = 0;

  // What a constant gradient moves a weight by in a step, in the end.
  double reach() const { return lr / (1 - momentum); }
};

// How a family of models is trained where everything is sent.
struct ModelRecipe {
  std::string_view prefix;  // of the models' names; the empty one is the rest
  std::string_view optimizer;
  double lr = 0;
  std::string_view lr_schedule;
  double clip = 0;          // norm of the mean gradient; 0: any
  std::string_view source;  // of the numbers
};
// The empty prefix is the last.
std::span<const ModelRecipe> model_recipes();
// That of the model of that name.
const ModelRecipe& default_recipe(std::string_view model);

// Spells the sparsifier "none" so, however it was given. Puts the model's
// recipe in place of the optimizer "auto", with momentum where sparsifier and
// feedback want it, and with it in place of the schedule "auto" and the clip 0;
// the rate 0 becomes that of the recipe for optimizers of its kind, and a usual
// one for others. A schedule "auto" beside an optimizer that was given is that
// of the models with the empty prefix.
void choose_recipe(TrainConfig& config);

// Whether the optimizer is SGD; recipes are of SGD.
bool has_recipe(const TrainConfig& config);
Recipe recipe_of(const TrainConfig& config);
// Momentum stays in the optimizer, or in feedback `dgc`, whatever it costs.
void force_recipe(TrainConfig& config, const Recipe& recipe);

// The recipe of `dense`, a configuration that sends everything, with momentum
// where sparsifier and feedback want it.
void take_recipe(TrainConfig& config, const TrainConfig& dense);

// What is known to cost accuracy in a configuration, and what to do; empty if
// there is nothing of the kind.
std::string recipe_note(const TrainConfig& config);

}  // namespace sluice
