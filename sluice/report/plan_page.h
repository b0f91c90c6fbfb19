#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sluice/report/page.h"

// Pages of what is no run.

namespace sluice {

// Of a plan.json: every plan that it has, bucket by bucket. Throws
// std::invalid_argument for what is no plan.
Page plan_page(const std::string& name, const std::string& text);

// Of a study.json:
//
//   {"kind", "title", "subtitle",
//    "series": [{"name", "panel", "x_label", "y_label", "log_x", "log_y", "x",
//                "y"}, ...],
//    "tables": [{"title", "legend", "columns", "rows"}, ...]}
//
// What is not as it should be is left out, with a note.
Page study_page(const std::string& name, const nlohmann::ordered_json& study);

// The sections of a plan, for the page of a run; empty if it is none.
Section plan_section(const std::string& text);

}  // namespace sluice
