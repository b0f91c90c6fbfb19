#include "sluice/core/params.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/number_text.h"

namespace sluice {
namespace {

template <class Range>
std::string join(const Range& items) {
  std::string all;
  for (const auto& item : items) {
    all += all.empty() ? "" : " ";
    all += item;
  }
  return all;
}

template <class T>
T parse_number(std::string_view what, std::string_view text) {
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), what,
          " must be a ", std::is_integral_v<T> ? "whole number" : "number",
          ", got '", text, "'");
  return value;
}

void check_range(std::string_view what, const Param& param, double value) {
  require(value >= param.min && value <= param.max, what, " must lie in [",
          shortest(param.min), ", ", shortest(param.max), "], got ",
          shortest(value));
}

struct Setter {
  std::string what;
  const Param& param;
  std::string_view text;

  void operator()(double* target) const {
    const auto value = parse_number<double>(what, text);
    check_range(what, param, value);
    *target = value;
  }
  void operator()(std::int64_t* target) const {
    const auto value = parse_number<std::int64_t>(what, text);
    check_range(what, param, static_cast<double>(value));
    *target = value;
  }
  void operator()(bool* target) const {
    require(text == "true" || text == "false", what,
            " must be true or false, got '", text, "'");
    *target = text == "true";
  }
  void operator()(std::string* target) const {
    const auto& choices = param.choices;
    require(choices.empty() || std::find(choices.begin(), choices.end(),
                                         text) != choices.end(),
            what, " must be one of ", join(choices), ", got '", text, "'");
    *target = text;
  }
};

Spec parse_json_spec(std::string_view text) {
  check_json("parse_spec", text);
  const auto json = nlohmann::json::parse(text);
  require(json.is_object() && json.contains("name") && json["name"].is_string(),
          "[parse_spec] a JSON method must be an object with a string 'name', "
          "got ",
          text);
  Spec spec;
  spec.name = json["name"];
  for (const auto& [key, value] : json.items()) {
    if (key == "name") continue;
    require(value.is_primitive(), "[parse_spec] parameter '", key, "' of '",
            spec.name, "' must be a number, a string or a truth value, got ",
            value.dump());
    spec.params.emplace_back(
        key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return spec;
}

}  // namespace

std::string to_text(const Param& param) {
  struct Getter {
    std::string operator()(const double* v) const { return shortest(*v); }
    std::string operator()(const std::int64_t* v) const {
      return std::to_string(*v);
    }
    std::string operator()(const bool* v) const {
      return *v ? "true" : "false";
    }
    std::string operator()(const std::string* v) const { return *v; }
  };
  return std::visit(Getter{}, param.value);
}

void set_param(const ParamList& params, std::string_view owner,
               std::string_view name, std::string_view text) {
  for (const Param& param : params) {
    if (param.name != name) continue;
    std::visit(
        Setter{concat("[", owner, "] parameter '", name, "'"), param, text},
        param.value);
    return;
  }
  std::vector<std::string_view> known;
  for (const Param& param : params) known.push_back(param.name);
  throw std::invalid_argument(
      concat("[", owner, "] no parameter '", name, "'; ",
             known.empty() ? "it has none" : concat("known: ", join(known))));
}

Spec parse_spec(std::string_view text) {
  if (!text.empty() && text.front() == '{') return parse_json_spec(text);
  const std::size_t colon = text.find(':');
  Spec spec;
  spec.name = text.substr(0, colon);
  require(!spec.name.empty(),
          "[parse_spec] a method must be given as name or "
          "name:key=value,key=value, got '",
          text, "'");
  if (colon == std::string_view::npos) return spec;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    require(equals != std::string_view::npos && equals > 0,
            "[parse_spec] parameters must read key=value,key=value, got '",
            pair, "' in '", text, "'");
    spec.params.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

Description describe(std::string_view name, std::string_view summary,
                     const ParamList& params) {
  Description out{name, summary, {}};
  for (const Param& param : params) {
    std::string doc(param.doc);
    if (!param.choices.empty()) doc += concat(" (", join(param.choices), ")");
    out.parameters.push_back({std::string(param.name), to_text(param), doc});
  }
  return out;
}

void fail_unknown(std::string_view kind, std::string_view given,
                  std::span<const std::string_view> known) {
  throw std::invalid_argument(concat("[make_", kind, "] no ", kind, " '", given,
                                     "'; known: ", join(known)));
}

}  // namespace sluice
