#include "sluice/sparsify/exceptions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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

std::vector<std::string> names(const nlohmann::json& json,
                               std::string_view key) {
  const auto bad = [&] {
    return std::invalid_argument(concat("[exceptions] '", key,
                                        "' must be a list of name patterns, "
                                        "got ",
                                        json.dump()));
  };
  if (!json.is_array()) throw bad();
  std::vector<std::string> all;
  for (const auto& item : json) {
    if (!item.is_string()) throw bad();
    all.push_back(item);
  }
  return all;
}

std::size_t number(const nlohmann::json& json, std::string_view key) {
  require(json.is_number_unsigned(), "[exceptions] '", key,
          "' must be a whole number, got ", json.dump());
  return json;
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

Exceptions Exceptions::from_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  require(json.is_object(), "[exceptions] must be a JSON object, got ", text);
  Exceptions all;
  for (const auto& [key, value] : json.items()) {
    if (key == "dense") {
      all.dense = names(value, key);
    } else if (key == "no_feedback") {
      all.no_feedback = names(value, key);
    } else if (key == "dense_below") {
      all.dense_below = number(value, key);
    } else if (key == "dense_rank") {
      all.dense_rank = number(value, key);
    } else {
      throw std::invalid_argument(
          concat("[exceptions] no key '", key,
                 "'; known: dense no_feedback dense_below dense_rank"));
    }
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

std::string print_treatments(std::span<const TensorInfo> tensors,
                             std::span<const Treatment> treatments) {
  std::string out;
  std::size_t plain = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (treatments[t].why.empty()) {
      ++plain;
    } else {
      out += concat("  ", tensors[t].name, "  ", treatments[t].why, "\n");
    }
  }
  return concat("exceptions (", tensors.size() - plain, " of ", tensors.size(),
                " tensors):\n", out);
}

}  // namespace sluice
