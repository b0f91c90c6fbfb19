#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/params.h"

namespace sluice {

struct TensorInfo {
  std::string name;
  std::vector<std::size_t> dims;
};

// What happens to a tensor.
struct Treatment {
  bool dense = false;          // all-reduced, not sparsified
  bool keeps_residual = true;  // false: what is not sent is lost
};

// Which tensors are treated otherwise than the rest.
//
// Nothing is hidden in a method: the rules are here and are resolved once.
// Patterns match whole names, with * for any run of characters and ? for one:
// "fc" does not match "mlp.c_fc".
struct Exceptions {
  std::vector<std::string> dense;        // names
  std::vector<std::string> no_feedback;  // names
  std::size_t dense_below = 0;           // elements
  std::size_t dense_rank = 1;            // dimensions, at most; default: 1-D

  // Throws std::invalid_argument if a pattern matches no tensor, since it is
  // then most likely misspelt.
  std::vector<Treatment> resolve(std::span<const TensorInfo> tensors) const;
};

// The rules with their defaults, for listings.
std::vector<Description> exception_descriptions();

bool matches(std::string_view pattern, std::string_view name);

}  // namespace sluice
