#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The methods that `sluice compare` sets side by side.

namespace sluice {

// A method, and the configuration (see TrainConfig) of a run of it, but for
// density, seed and folder.
struct Method {
  std::string name;
  nlohmann::ordered_json config;
  // Everything is sent, or the method says its own density: one row, whatever
  // the densities to compare.
  bool fixed_density = false;
  bool fixed_recipe = false;  // one of your own

  bool is_dense() const { return config.at("sparsifier") == "none"; }
};

// The configuration of the job with further flags of `sluice train`; throws if
// they make no sense.
using Configure = std::function<nlohmann::ordered_json(
    const std::vector<std::string>& flags)>;

// Methods in the order of `words`, dense ones first. Each word is
//
//   a list of names, joined by commas
//   all                      dense and every sparsifier but none and threshold
//   NAME=FLAGS               one of your own, in the flags of `sluice train`
//
// and a name is
//
//   dense, dense-bf16        every entry is sent
//   SPARSIFIER               with the feedback of its paper: residual, or dgc
//   COLLECTIVE               topk with that collective
//   SPARSIFIER+FEEDBACK+COLLECTIVE     the last may be left out
//
// The job's optimizer and rate are those of dense; see take_recipe() for what
// the others make of them. Methods of your own are as their flags say. Where
// the plan is "auto", all of them have first_plan() instead.
//
// Throws std::invalid_argument for unknown names and for names that come twice.
std::vector<Method> make_methods(const std::vector<std::string>& words,
                                 const Configure& configure);

// Momenta, and multiples of a method's own rate at equal reach (see Recipe).
struct Grid {
  std::vector<double> momenta;
  std::vector<double> rates;
};

// The configuration of a method with every recipe of the grid; of Adam, which
// has no such momentum, with every rate.
std::vector<nlohmann::ordered_json> tried_recipes(
    const nlohmann::ordered_json& config, const Grid& grid);

// "lr 0.05, momentum 0.9".
std::string recipe_text(const nlohmann::ordered_json& config);

}  // namespace sluice
