#include "sluice/core/json_check.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Hears what stands in a text, without a value being made of it.
class Check final : public nlohmann::json_sax<Json> {
 public:
  explicit Check(std::string_view where) : where_(where) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    require(keys_.back().insert(name).second, "[", where_, "] key '", name,
            "' must be there once per object, is there twice");
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const Json::exception& e) override {
    throw std::invalid_argument(concat(
        "[", where_, "] must be JSON in UTF-8: ", json_problem(e.what())));
  }

 private:
  bool open() {
    keys_.emplace_back();
    require(keys_.size() <= kJsonDepth, "[", where_, "] must be at most ",
            kJsonDepth, " levels deep, is deeper");
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view where_;
  std::vector<std::set<std::string>> keys_;  // by level
};

}  // namespace

std::string_view json_problem(std::string_view what) {
  constexpr std::string_view kEnd = "] ";
  const std::size_t end = what.find(kEnd);
  if (!what.starts_with('[') || end == what.npos) return what;
  return what.substr(end + kEnd.size());
}

void check_json(std::string_view where, std::string_view text) {
  Check check(where);
  Json::sax_parse(text.begin(), text.end(), &check);
}

bool is_sound_json(std::string_view text) try {
  check_json("", text);
  return true;
} catch (const std::invalid_argument&) {
  return false;
}

}  // namespace sluice
