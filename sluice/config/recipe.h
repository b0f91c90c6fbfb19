#pragma once

#include <string>

#include "sluice/config/config.h"

// Which optimizer and rate go with which feedback.
//
// An entry that plain residuals deliver carries the gradients of many steps at
// once; momentum in the optimizer would go on repeating it. So momentum belongs
// into the optimizer where everything is sent, before the selection with
// feedback `dgc`, and nowhere with plain residuals, whose rate is then
// 1 / (1 - momentum) times as high. The same holds for Adam, whose momentum is
// beta1; its rate stays, as it divides by the size of what arrives.

namespace sluice {

// What `sgd` has unless its parameters say otherwise.
inline constexpr double kSgdMomentum = 0.9;
inline constexpr double kAdamBeta1 = 0.9;  // and `adam`, `adamw`

// In terms of SGD that sends everything.
struct Recipe {
  double momentum = kSgdMomentum;
  bool nesterov = false;
  double lr = 0.05;
  double weight_decay = 0;

  // What a constant gradient moves a weight by in a step, in the end.
  double reach() const { return lr / (1 - momentum); }
};

// Puts the default in place of the optimizer "auto" and the rate 0.
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
