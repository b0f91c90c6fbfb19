#include <algorithm>
#include <array>

#include "sluice/config/recipe.h"

namespace sluice {
namespace {

// Rates are for weights drawn at random: what was published for going on from
// trained weights is in presets.
constexpr std::array kModelRecipes = {
    ModelRecipe{"transformer", "adamw:weight_decay=0.000012", 0.002,
                "inverse-sqrt:rise=100", 0,
                "ADTopk's job, for one worker, with the decay by itself"},
    ModelRecipe{"deepspeech", "sgd:momentum=0.9", 0.0003,
                "exponential:factor=0.99009900990099", 400,
                "gTop-k's job: divided by 1.01 per epoch"},
    ModelRecipe{"bert",
                "adamw:epsilon=0.000001,weight_decay=0.01,decay_1d=false",
                0.0001, "linear:warmup_share=0.1,warmup_from=0", 1,
                "Devlin et al. 2019; clip as in their code, warm-up of SQuAD"},
    ModelRecipe{"gpt2", "adamw:beta2=0.95,weight_decay=0.1,decay_1d=false",
                0.0006, "cosine:to=0.1,warmup_share=0.01,warmup_from=step", 1,
                "Brown et al. 2020, for the size of GPT-2 small"},
    ModelRecipe{"lstm", "sgd:momentum=0", 22, "cosine:warmup=1,warmup_most=0.2",
                0.25, "OMGS-SGD's PTB job; schedule of Sluice"},
    ModelRecipe{"", "sgd:momentum=0.9", 0.05, "cosine:warmup=1,warmup_most=0.2",
                0, "Sluice: docs/results.md"},
};

}  // namespace

std::span<const ModelRecipe> model_recipes() { return kModelRecipes; }

const ModelRecipe& default_recipe(std::string_view model) {
  return *std::find_if(
      kModelRecipes.begin(), kModelRecipes.end(),
      [&](const ModelRecipe& r) { return model.starts_with(r.prefix); });
}

}  // namespace sluice
