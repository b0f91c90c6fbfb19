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
// Where the feedback is dgc, the momentum m of the job moves from the optimizer
// into it, and a weight decay becomes 1 / (1 - m) times as strong, which is
// what the momentum made of it; and back for the others.
//
// Throws std::invalid_argument for unknown names and for names that come twice.
std::vector<Method> make_methods(const std::vector<std::string>& words,
                                 const Configure& configure);

}  // namespace sluice
