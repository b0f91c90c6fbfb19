#include "sluice/cli/compare/methods.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "sluice/cli/shared/kinds.h"
#include "sluice/collective/sparse_allreduce.h"
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

// Parameters of a spec, with defaults from a registry.
class Params {
 public:
  Params(const std::string& text, const std::vector<Description>& kinds)
      : spec_(parse_spec(text)) {
    for (const Description& d : kinds) {
      if (d.name == spec_.name) known_ = d.parameters;
    }
  }

  const std::string& name() const { return spec_.name; }
  bool knows(std::string_view key) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const auto& p) { return p.name == key; });
  }
  std::string get(std::string_view key) const {
    std::string value;
    for (const auto& p : known_) {
      if (p.name == key) value = p.value;
    }
    for (const auto& [name, text] : spec_.params) {
      if (name == key) value = text;
    }
    return value;
  }
  double number(std::string_view key) const {
    const std::string text = get(key);
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  void set(std::string_view key, const std::string& text) {
    std::erase_if(spec_.params, [&](const auto& p) { return p.first == key; });
    spec_.params.emplace_back(key, text);
  }
  void forget(std::string_view key) {
    std::erase_if(spec_.params, [&](const auto& p) { return p.first == key; });
  }
  std::string text() const {
    std::string text = spec_.name;
    for (std::size_t i = 0; i < spec_.params.size(); ++i) {
      text += concat(i == 0 ? ":" : ",", spec_.params[i].first, "=",
                     spec_.params[i].second);
    }
    return text;
  }

 private:
  Spec spec_;
  std::vector<Description::Parameter> known_;
};

Params optimizer_of(const Json& config) {
  std::vector<Description> optimizers;
  for (const Kind& kind : training_kinds()) {
    if (kind.name == "optimizers") optimizers = kind.describe();
  }
  return {config.at("optimizer").get<std::string>(), optimizers};
}

Params feedback_of(const Json& config) {
  std::vector<Description> all;
  for (const FeedbackEntry& entry : feedbacks())
    all.push_back(entry.describe());
  return {config.at("feedback").get<std::string>(), all};
}

// A momentum m makes of a weight decay w what w / (1 - m) is without.
void scale_decay(Params& optimizer, double by) {
  const double decay = optimizer.number("weight_decay");
  if (decay == 0) return;
  optimizer.set("weight_decay", fmt::format("{:.6g}", decay * by));
}

// From the feedback, if it is there, to the optimizer.
void give_momentum_to_optimizer(Json& config) {
  const Params feedback = feedback_of(config);
  if (feedback.name() != "dgc") return;
  config["feedback"] = "residual";
  Params optimizer = optimizer_of(config);
  const double m = feedback.number("momentum");
  if (!optimizer.knows("momentum") || optimizer.number("momentum") > 0 ||
      m == 0) {
    return;
  }
  optimizer.set("momentum", feedback.get("momentum"));
  if (feedback.get("nesterov") == "true") optimizer.set("nesterov", "true");
  scale_decay(optimizer, 1 - m);
  config["optimizer"] = optimizer.text();
}

// `was` is the feedback of the job: its other parameters are kept.
void give_momentum_to_feedback(Json& config, const std::string& was) {
  config["feedback"] = was.starts_with("dgc") ? was : "dgc";
  Params feedback = feedback_of(config);
  Params optimizer = optimizer_of(config);
  const bool has_momentum = optimizer.knows("momentum");
  const double m = has_momentum ? optimizer.number("momentum") : 0;
  feedback.set("momentum", has_momentum ? optimizer.get("momentum") : "0");
  feedback.forget("nesterov");
  if (m > 0) {
    if (optimizer.get("nesterov") == "true") feedback.set("nesterov", "true");
    optimizer.set("momentum", "0");
    optimizer.forget("nesterov");
    scale_decay(optimizer, 1 / (1 - m));
  }
  config["feedback"] = feedback.text();
  config["optimizer"] = optimizer.text();
}

void set_feedback(Json& config, const std::string& name) {
  const auto was = config.at("feedback").get<std::string>();
  give_momentum_to_optimizer(config);
  if (name == "dgc") {
    give_momentum_to_feedback(config, was);
  } else if (!name.empty()) {
    config["feedback"] = name;
  }
}

[[noreturn]] void fail_unknown_method(const std::string& name) {
  throw std::invalid_argument(concat(
      "[compare] no method '", name, "'; known: all dense dense-bf16 ",
      names_of(sparsifiers()), ", with +FEEDBACK (", names_of(feedbacks()),
      ") and +COLLECTIVE (", names_of(collectives()),
      ") or a collective alone, or your own as NAME=FLAGS"));
}

// SPARSIFIER+FEEDBACK+COLLECTIVE, or a collective.
Method make_combination(const std::string& name, Json config) {
  std::vector<std::string> parts = split(name, '+');
  if (parts.size() == 1 && has(collectives(), name)) {
    parts = {"topk", "", name};
  }
  const bool known = parts[0] != "none" && has(sparsifiers(), parts[0]);
  if (!known || parts.size() > 3) fail_unknown_method(name);
  config["sparsifier"] = parts[0];
  std::string feedback = parts[0] == "dgc" ? "dgc" : "";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i == 1 && has(feedbacks(), parts[i])) {
      feedback = parts[i];
    } else if (has(collectives(), parts[i])) {
      config["collective"] = parts[i];
    } else if (!parts[i].empty()) {
      fail_unknown_method(name);
    }
  }
  set_feedback(config, feedback);
  return {name, config};
}

Method make_dense(const std::string& name, Json config) {
  config["sparsifier"] = "none";
  if (name == "dense-bf16") config["collective"] = name;
  set_feedback(config, "");
  return {name, config, true};
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
  const bool own_density =
      std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
        return flag == "--density" || flag.starts_with("--density=");
      });
  method.fixed_density = own_density || method.is_dense();
  return method;
}

}  // namespace

std::vector<Method> make_methods(const std::vector<std::string>& words,
                                 const Configure& configure) {
  const Json job = configure({});
  std::vector<Method> methods;
  const auto add = [&](Method method) {
    check_name(method.name);
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
