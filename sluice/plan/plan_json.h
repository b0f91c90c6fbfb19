#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "sluice/plan/plan.h"

// A plan as a part of JSON, for files that hold one or several.

namespace sluice {

inline constexpr int kPlanVersion = 2;

nlohmann::ordered_json plan_to_json(const Plan& plan,
                                    std::span<const std::string> names);

// Throws std::invalid_argument, with `what` ("a plan") in it, unless it is the
// JSON of a plan that check_plan() accepts, with no other keys than its own and
// `more`.
Plan plan_of_json(const nlohmann::ordered_json& json, const std::string& what,
                  std::span<const std::string> names,
                  const std::vector<std::string_view>& more);

// Calls `read` on the JSON of a text that anyone may have written. Throws
// std::invalid_argument for what is no JSON, or not of the kind that `read`
// expects.
void read_plan_json(
    std::string_view text,
    const std::function<void(const nlohmann::ordered_json&)>& read);

// Throws std::invalid_argument unless a file is of a version that can be read.
void check_plan_version(const nlohmann::ordered_json& file);

}  // namespace sluice
