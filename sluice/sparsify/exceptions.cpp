#include "sluice/sparsify/exceptions.h"

#include <algorithm>

#include "sluice/core/error.h"
#include "sluice/core/view.h"

namespace sluice {
namespace {

void check_used(std::span<const std::string> patterns,
                std::span<const TensorInfo> tensors, std::string_view key) {
  for (const std::string& pattern : patterns) {
    const bool used = std::any_of(
        tensors.begin(), tensors.end(),
        [&](const TensorInfo& t) { return matches(pattern, t.name); });
    require(used, "[exceptions] pattern '", pattern, "' of '", key,
            "' must match a tensor, matches none of ", tensors.size(),
            "; patterns match whole names, with * and ?");
  }
}

bool any_match(std::span<const std::string> patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return matches(p, name); });
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // Greedy with one point of return: the last star.
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<Treatment> Exceptions::resolve(
    std::span<const TensorInfo> tensors) const {
  check_used(dense, tensors, "dense");
  check_used(no_feedback, tensors, "no_feedback");
  std::vector<Treatment> all;
  for (const TensorInfo& tensor : tensors) {
    Treatment treatment;
    treatment.dense = any_match(dense, tensor.name) ||
                      tensor.dims.size() <= dense_rank ||
                      shape3(tensor.dims).size() < dense_below;
    treatment.keeps_residual =
        treatment.dense || !any_match(no_feedback, tensor.name);
    all.push_back(treatment);
  }
  return all;
}

std::vector<Description> exception_descriptions() {
  const Exceptions defaults;
  return {
      {"dense_rank",
       "tensors of at most so many dimensions stay dense",
       {{"value", std::to_string(defaults.dense_rank), "dimensions"}}},
      {"dense_below",
       "tensors of fewer elements stay dense",
       {{"value", std::to_string(defaults.dense_below), "elements"}}},
      {"dense", "tensors whose names match stay dense", {}},
      {"no_feedback", "tensors whose names match lose what is not sent", {}}};
}

}  // namespace sluice
