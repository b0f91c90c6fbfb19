#include "sluice/run/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice {

std::string describe_classes(std::span<const ClassCount> classes,
                             std::string_view unit) {
  constexpr std::size_t kNamed = 10;
  std::uint64_t train = 0;
  std::uint64_t test = 0;
  std::string names;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    train += classes[i].train;
    test += classes[i].test;
    if (i >= kNamed) continue;
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", classes[i].name,
                         classes[i].train);
  }
  if (classes.size() > kNamed) {
    names += fmt::format(" and {} more", classes.size() - kNamed);
  }
  const auto [fewest, most] =
      std::ranges::minmax(classes, {}, &ClassCount::train);
  return fmt::format(
      "{} {} to train on and {} to evaluate with, in {} classes of {} to {}: "
      "{}",
      train, unit, test, classes.size(), fewest.train, most.train, names);
}

std::string classes_to_json(std::span<const ClassCount> classes) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const ClassCount& c : classes) {
    all.push_back({{"name", c.name}, {"train", c.train}, {"test", c.test}});
  }
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sluice
