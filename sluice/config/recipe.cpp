#include "sluice/config/recipe.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "sluice/core/error.h"
#include "sluice/core/plain_none.h"
#include "sluice/feedback/feedback.h"

namespace sluice {
namespace {

enum class Home { kOptimizer, kFeedback, kNowhere };

Home home_of_momentum(const TrainConfig& c) {
  if (parse_spec(c.feedback).name == "dgc") return Home::kFeedback;
  return c.sparsifier == "none" ? Home::kOptimizer : Home::kNowhere;
}

std::string get(const Spec& spec, std::string_view key,
                std::string_view otherwise) {
  std::string value(otherwise);
  for (const auto& [name, text] : spec.params) {
    if (name == key) value = text;
  }
  return value;
}

double number(const Spec& spec, std::string_view key, double otherwise) {
  const std::string text = get(spec, key, "");
  double value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Without what floating point adds: 0.5, not 0.50000000000000011.
double rounded(double value) {
  std::ostringstream text;
  text << value;
  return std::stod(text.str());
}

void forget(Spec& spec, std::string_view key) {
  std::erase_if(spec.params, [&](const auto& p) { return p.first == key; });
}

void set(Spec& spec, std::string_view key, double value) {
  forget(spec, key);
  spec.params.emplace_back(key, concat(value));
}

std::string text_of(const Spec& spec) {
  std::string text = spec.name;
  for (const auto& [key, value] : spec.params) {
    text +=
        concat(text.size() == spec.name.size() ? ":" : ",", key, "=", value);
  }
  return text;
}

void set_momentum(Spec& spec, double momentum, bool nesterov) {
  set(spec, "momentum", momentum);
  forget(spec, "nesterov");
  if (nesterov && momentum > 0) spec.params.emplace_back("nesterov", "true");
}

void set_decay(Spec& optimizer, double decay) {
  if (decay == number(optimizer, "weight_decay", 0)) return;
  set(optimizer, "weight_decay", rounded(decay));
}

void put(TrainConfig& c, const Recipe& recipe, Home home) {
  Spec optimizer = parse_spec(c.optimizer);
  Spec feedback = parse_spec(c.feedback);
  const double m = recipe.momentum;
  const bool mine = home == Home::kOptimizer;
  set_momentum(optimizer, mine ? m : 0, recipe.nesterov);
  // DGC's momentum knows nothing of the decay.
  set_decay(optimizer, home == Home::kFeedback ? recipe.weight_decay / (1 - m)
                                               : recipe.weight_decay);
  if (home == Home::kFeedback) set_momentum(feedback, m, recipe.nesterov);
  c.lr = rounded(home == Home::kNowhere ? recipe.reach() : recipe.lr);
  c.optimizer = text_of(optimizer);
  c.feedback = text_of(feedback);
}

std::string_view momentum_key(const Spec& optimizer) {
  return optimizer.name == "sgd" ? "momentum" : "beta1";
}

std::string optimizer_for(const ModelRecipe& family, Home home) {
  Spec optimizer = parse_spec(family.optimizer);
  if (home != Home::kOptimizer) set(optimizer, momentum_key(optimizer), 0);
  return text_of(optimizer);
}

// Of a configuration that has an optimizer.
double rate_for(const ModelRecipe& family, const TrainConfig& c) {
  constexpr double kAdamRate = 0.001;
  const Spec given = parse_spec(c.optimizer);
  const Spec own = parse_spec(family.optimizer);
  if (given.name != "sgd") {
    // All that are of Adam's kind but LAMB, whose rates are shares of weights.
    const bool alike = own.name != "sgd" && given.name != "lamb";
    return alike ? family.lr : kAdamRate;
  }
  const bool alike = own.name == "sgd";
  const Recipe dense =
      alike ? Recipe{.momentum = number(own, "momentum", kSgdMomentum),
                     .lr = family.lr}
            : Recipe();
  const double momentum = std::max(dense_momentum(c.feedback).factor,
                                   number(given, "momentum", kSgdMomentum));
  return rounded(dense.reach() * (1 - momentum));
}

}  // namespace

bool has_recipe(const TrainConfig& c) {
  return parse_spec(c.optimizer).name == "sgd";
}

void choose_recipe(TrainConfig& c) {
  c.sparsifier = plain_none(c.sparsifier);
  const ModelRecipe& family = default_recipe(parse_spec(c.model).name);
  const bool by_model = c.optimizer == "auto";
  if (c.lr_schedule == "auto") {
    c.lr_schedule =
        by_model ? family.lr_schedule : default_recipe("").lr_schedule;
  }
  if (by_model) {
    c.optimizer = optimizer_for(family, home_of_momentum(c));
    if (c.clip == 0) c.clip = family.clip;
  }
  if (c.lr == 0) c.lr = rate_for(family, c);
}

Recipe recipe_of(const TrainConfig& c) {
  const Spec optimizer = parse_spec(c.optimizer);
  Recipe recipe;
  recipe.momentum = number(optimizer, "momentum", kSgdMomentum);
  recipe.nesterov = get(optimizer, "nesterov", "") == "true";
  recipe.lr = c.lr;
  recipe.weight_decay = number(optimizer, "weight_decay", 0);
  const MomentumSettings before = dense_momentum(c.feedback);
  if (recipe.momentum > 0 || before.factor == 0) return recipe;
  recipe.momentum = before.factor;
  recipe.nesterov = before.nesterov;
  recipe.weight_decay *= 1 - before.factor;
  return recipe;
}

void force_recipe(TrainConfig& c, const Recipe& recipe) {
  const Home home = home_of_momentum(c);
  put(c, recipe, home == Home::kNowhere ? Home::kOptimizer : home);
}

void take_recipe(TrainConfig& c, const TrainConfig& dense) {
  c.optimizer = dense.optimizer;
  c.lr = dense.lr;
  const Home home = home_of_momentum(c);
  if (has_recipe(dense)) {
    put(c, recipe_of(dense), home);
    return;
  }
  if (home == Home::kOptimizer) return;
  Spec optimizer = parse_spec(c.optimizer);
  set(optimizer, "beta1", 0);
  c.optimizer = text_of(optimizer);
  if (home == Home::kFeedback) c.feedback = "dgc:momentum=0";
}

std::string recipe_note(const TrainConfig& c) {
  if (c.sparsifier == "none" || c.density >= 1) return {};
  const Spec optimizer = parse_spec(c.optimizer);
  const bool sgd = has_recipe(c);
  const std::string_view key = momentum_key(optimizer);
  const double momentum =
      number(optimizer, key, sgd ? kSgdMomentum : kAdamBeta1);
  const std::string without =
      concat("--optimizer ", optimizer.name, ":", key, "=0");
  if (momentum == 0) return {};
  if (home_of_momentum(c) == Home::kFeedback) {
    return concat("the optimizer's ", key, " ", momentum,
                  " comes on top of the momentum of feedback dgc; ", without,
                  " has it once");
  }
  const std::string rate =
      sgd ? concat(" --lr ", rounded(c.lr / (1 - momentum))) : "";
  return concat(key, " ", momentum,
                " in the optimizer beside plain residuals costs about a point "
                "of accuracy (docs/results.md); ",
                without, rate, " does not");
}

}  // namespace sluice
