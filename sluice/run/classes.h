#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

// A class of samples: its name, or its number where it has none.
struct ClassCount {
  std::string name;
  std::uint64_t train = 0;  // samples to train on
  std::uint64_t test = 0;   // samples to evaluate with
};

// For people: how many classes and samples there are, and the names of the
// first few.
std::string describe_classes(std::span<const ClassCount> classes,
                             std::string_view unit);

// The content of classes.json, in the order of labels.
std::string classes_to_json(std::span<const ClassCount> classes);

}  // namespace sluice
