#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

// One named parameter of a method: where it is kept, what it means, what it may
// be. Numbers must lie in [min, max]; strings must be one of `choices` if there
// are any.
struct Param {
  std::string_view name;
  std::variant<double*, std::int64_t*, bool*, std::string*> value;
  std::string_view doc;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};
};

using ParamList = std::vector<Param>;

// The value as text ("true", "0.25", "longer").
std::string to_text(const Param& param);

// Sets a parameter from text. Throws std::invalid_argument, with `owner` (say
// "sparsifier 'dgc'") and the known names in it, if there is no such parameter
// or the value does not fit.
void set_param(const ParamList& params, std::string_view owner,
               std::string_view name, std::string_view text);

// A method by name, with the parameters to change.
//
//   dgc                                 the name alone
//   dgc:upper=1.5,resample=false        as on the command line
//   {"name": "dgc", "upper": 1.5}       as in a JSON configuration
struct Spec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> params;
};

// Throws std::invalid_argument if the text is none of these forms.
Spec parse_spec(std::string_view text);

// What a registry can tell about an entry.
struct Description {
  std::string_view name;
  std::string_view summary;
  struct Parameter {
    std::string name;
    std::string value;  // the default
    std::string doc;
  };
  std::vector<Parameter> parameters;
};

Description describe(std::string_view name, std::string_view summary,
                     const ParamList& params);

// "[make_x] no x 'given'; known: a b c" for an unknown name.
[[noreturn]] void fail_unknown(std::string_view kind, std::string_view given,
                               std::span<const std::string_view> known);

}  // namespace sluice
