#include "sluice/plan/json_fields.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/nearest_name.h"

namespace sluice {

using Json = nlohmann::ordered_json;

void FieldsOf::check(const std::vector<std::string_view>& known) const {
  require(json.is_object(), "[", where, "] ", what,
          " must be an object with keys, got ", json.type_name());
  for (const auto& [key, value] : json.items()) {
    require(std::find(known.begin(), known.end(), key) != known.end(), "[",
            where, "] ", what, " has no key '", key, "'; did you mean '",
            nearest_name(known, key), "'?");
  }
}

bool FieldsOf::has(std::string_view key) const {
  return json.contains(std::string(key));
}

const Json& FieldsOf::at(std::string_view key) const {
  const auto it = json.find(std::string(key));
  require(it != json.end(), "[", where, "] ", what, " must have '", key,
          "', but has none");
  return *it;
}

double FieldsOf::number(std::string_view key) const {
  const Json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : NAN;
  require(std::isfinite(number) && number >= 0, "[", where, "] '", key, "' of ",
          what, " must be a number, 0 or more, got ", value.dump());
  return number;
}

double FieldsOf::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::size_t FieldsOf::count(std::string_view key) const {
  // Whatever counts is below, and stays exact as a double.
  constexpr double kMost = 0x1p53;
  const double value = number(key);
  require(value >= 1 && value <= kMost && value == std::floor(value), "[",
          where, "] '", key, "' of ", what,
          " must be a whole number, at least 1, got ", at(key).dump());
  return static_cast<std::size_t>(value);
}

std::string FieldsOf::text(std::string_view key) const {
  const Json& value = at(key);
  require(value.is_string(), "[", where, "] '", key, "' of ", what,
          " must be text, got ", value.dump());
  return value.get<std::string>();
}

std::string FieldsOf::text(std::string_view key,
                           std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

const Json& FieldsOf::array(std::string_view key, std::size_t least) const {
  const Json& value = at(key);
  require(value.is_array(), "[", where, "] '", key, "' of ", what,
          " must be a list, got ", value.type_name());
  require(value.size() >= least, "[", where, "] '", key, "' of ", what,
          " must have at least ", least, ", has ", value.size());
  return value;
}

Json parse_checked(std::string_view where, std::string_view text) {
  check_json(where, text);
  return Json::parse(text);
}

void check_format(const FieldsOf& fields, std::string_view example) {
  const bool sound = fields.json.is_object() && fields.has("format") &&
                     fields.json["format"] == 1;
  require(sound, "[", fields.where, "] must be of format 1 (\"format\": 1), ",
          example);
}

}  // namespace sluice
