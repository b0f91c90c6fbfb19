#include "sluice/cli/compare/methods.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/config/recipe.h"
#include "sluice/core/error.h"
#include "sluice/feedback/feedback.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class Entries>
bool has(const Entries& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return entry.name == name; });
}

template <class Entries>
std::string names_of(const Entries& entries) {
  std::string all;
  for (const auto& entry : entries) {
    all += concat(all.empty() ? "" : " ", entry.name);
  }
  return all;
}

// A threshold is a magnitude, not a density: beside the others it would show
// how well its value was guessed.
std::vector<std::string> all_methods() {
  std::vector<std::string> names = {"dense"};
  for (const SparsifierEntry& entry : sparsifiers()) {
    if (entry.name == "none" || entry.name == "threshold") continue;
    names.emplace_back(entry.name);
  }
  return names;
}

TrainConfig config_of(const Json& json) {
  TrainConfig config;
  change_by_json(config, "compare", json.dump());
  return config;
}

Json json_of(const TrainConfig& config) { return Json::parse(to_json(config)); }

// The job as dense would run it, with `feedback` instead of its own.
TrainConfig with_feedback(const TrainConfig& job, const std::string& feedback) {
  TrainConfig config = job;
  const bool same = parse_spec(job.feedback).name == feedback;
  if (!same) config.feedback = feedback;
  return config;
}

[[noreturn]] void fail_unknown_method(const std::string& name) {
  throw std::invalid_argument(concat(
      "[compare] no method '", name, "'; known: all dense dense-bf16 ",
      names_of(sparsifiers()), ", with +FEEDBACK (", names_of(feedbacks()),
      ") and +COLLECTIVE (", names_of(collectives()),
      ") or a collective alone, or your own as NAME=FLAGS"));
}

// SPARSIFIER+FEEDBACK+COLLECTIVE, or a collective.
Method make_combination(const std::string& name, const TrainConfig& job) {
  std::vector<std::string> parts = split(name, '+');
  if (parts.size() == 1 && has(collectives(), name)) {
    parts = {"topk", "", name};
  }
  const bool known = parts[0] != "none" && has(sparsifiers(), parts[0]);
  if (!known || parts.size() > 3) fail_unknown_method(name);
  std::string feedback = parse_spec(job.feedback).name;
  if (parts[0] == "dgc") {
    feedback = "dgc";
  } else if (feedback == "dgc") {
    feedback = "residual";
  }
  std::string collective = job.collective;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i == 1 && has(feedbacks(), parts[i])) {
      feedback = parts[i];
    } else if (has(collectives(), parts[i])) {
      collective = parts[i];
    } else if (!parts[i].empty()) {
      fail_unknown_method(name);
    }
  }
  TrainConfig config = with_feedback(job, feedback);
  config.sparsifier = parts[0];
  config.collective = collective;
  take_recipe(config, job);
  return {name, json_of(config)};
}

Method make_dense(const std::string& name, const TrainConfig& job) {
  TrainConfig config = with_feedback(job, "residual");
  config.sparsifier = "none";
  if (name == "dense-bf16") config.collective = name;
  take_recipe(config, job);
  return {name, json_of(config), true};
}

void check_name(const std::string& name) {
  const bool plain =
      !name.empty() && name[0] != '.' && name[0] != '-' &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || std::strchr("._+-", c) != nullptr;
      });
  require(plain,
          "[compare] a method's name must be letters, digits, '.', '_', "
          "'+' and '-', as it names folders, got '",
          name, "'");
}

Method make_own(const std::string& word, const Configure& configure) {
  const std::size_t equals = word.find('=');
  const std::vector<std::string> flags =
      CLI::detail::split_up(word.substr(equals + 1));
  const std::string name = word.substr(0, equals);
  check_name(name);
  Method method{name, configure(flags)};
  method.fixed_recipe = true;
  const bool own_density =
      std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
        return flag == "--density" || flag.starts_with("--density=");
      });
  method.fixed_density = own_density || method.is_dense();
  return method;
}

// Methods are compared at the density that is asked for, and as anyone can
// repeat: auto would go by measured times, and send everything where that is
// faster.
void fix_plan(Method& method) {
  TrainConfig config = config_of(method.config);
  if (config.plan != "auto" || !config.costs.empty()) return;
  config.plan = first_plan(config);
  method.config = json_of(config);
}

}  // namespace

std::vector<nlohmann::ordered_json> tried_recipes(const Json& method,
                                                  const Grid& grid) {
  const TrainConfig config = config_of(method);
  std::vector<Json> tried;
  if (!has_recipe(config)) {
    for (const double factor : grid.rates) {
      TrainConfig one = config;
      one.lr *= factor;
      tried.push_back(json_of(one));
    }
    return tried;
  }
  const Recipe own = recipe_of(config);
  for (const double momentum : grid.momenta) {
    for (const double factor : grid.rates) {
      Recipe recipe = own;
      recipe.momentum = momentum;
      recipe.lr = factor * own.reach() * (1 - momentum);
      TrainConfig one = config;
      force_recipe(one, recipe);
      tried.push_back(json_of(one));
    }
  }
  return tried;
}

std::string recipe_text(const Json& config) {
  const TrainConfig c = config_of(config);
  std::string text = fmt::format("lr {:g}", c.lr);
  if (!has_recipe(c)) return parse_spec(c.optimizer).name + " " + text;
  const double momentum = recipe_of(c).momentum;
  if (momentum > 0) text += fmt::format(", momentum {:g}", momentum);
  return text;
}

std::vector<Method> make_methods(const std::vector<std::string>& words,
                                 const Configure& configure) {
  const TrainConfig job = config_of(configure({"--sparsifier", "none"}));
  std::vector<Method> methods;
  const auto add = [&](Method method) {
    check_name(method.name);
    fix_plan(method);
    const bool twice =
        std::any_of(methods.begin(), methods.end(),
                    [&](const Method& m) { return m.name == method.name; });
    require(!twice, "[compare] methods must have different names, got '",
            method.name, "' twice");
    methods.push_back(std::move(method));
  };
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      add(make_own(word, configure));
      continue;
    }
    for (const std::string& item : split(word, ',')) {
      const auto names =
          item == "all" ? all_methods() : std::vector<std::string>{item};
      for (const std::string& name : names) {
        const bool dense = name == "dense" || name == "dense-bf16";
        add(dense ? make_dense(name, job) : make_combination(name, job));
      }
    }
  }
  std::stable_partition(methods.begin(), methods.end(),
                        [](const Method& m) { return m.is_dense(); });
  return methods;
}

}  // namespace sluice
