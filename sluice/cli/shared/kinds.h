#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/params.h"

namespace sluice {

// A registry that `sluice list` shows.
struct Kind {
  std::string_view name;
  std::vector<Description> (*describe)();
  // What people see; null: each with its parameters.
  std::string (*print)() = nullptr;
};

// Those of training; none in a build without torch.
std::span<const Kind> training_kinds();

// All of them.
std::vector<Kind> all_kinds();

}  // namespace sluice
