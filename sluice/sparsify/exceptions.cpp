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

const std::string* first_match(std::span<const std::string> patterns,
                               std::string_view name) {
  for (const std::string& pattern : patterns) {
    if (matches(pattern, name)) return &pattern;
  }
  return nullptr;
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
    const std::size_t size = shape3(tensor.dims).size();
    if (const auto* pattern = first_match(dense, tensor.name)) {
      treatment = {true, true, concat("dense: name matches '", *pattern, "'")};
    } else if (tensor.dims.size() <= dense_rank) {
      treatment = {true, true,
                   concat("dense: ", tensor.dims.size(),
                          "-D (rank <= ", dense_rank, ")")};
    } else if (size < dense_below) {
      treatment = {true, true,
                   concat("dense: ", size, " elements (< ", dense_below, ")")};
    } else if (const auto* lossy = first_match(no_feedback, tensor.name)) {
      treatment = {false, false,
                   concat("no feedback: name matches '", *lossy,
                          "'; what is not sent is lost")};
    }
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
