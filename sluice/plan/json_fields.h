#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// For readers of files that anyone may have written: every mistake names its
// place ("[profile] tensor 3") and what would do. All throw
// std::invalid_argument.

namespace sluice {

struct FieldsOf {
  std::string_view where;  // "profile"
  std::string what;        // "tensor 3"
  const nlohmann::ordered_json& json;

  // An object without other keys than these.
  void check(const std::vector<std::string_view>& known) const;
  bool has(std::string_view key) const;
  // Zero or more, and finite; the second is for a key that may be missing.
  double number(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  // A whole number, at least 1.
  std::size_t count(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  // An array; of at least so many.
  const nlohmann::ordered_json& array(std::string_view key,
                                      std::size_t least = 0) const;

 private:
  const nlohmann::ordered_json& at(std::string_view key) const;
};

// The JSON of a text that check_json() accepts.
nlohmann::ordered_json parse_checked(std::string_view where,
                                     std::string_view text);

// "format": 1.
void check_format(const FieldsOf& fields, std::string_view example);

}  // namespace sluice
