#pragma once

#include "sluice/cli/study/study_file.h"

namespace sluice {

// What rows of LayerStudy::look() come to: tables, series and files.
struct GradientReport {
  StudyFile study;
  std::vector<std::pair<std::string, std::string>> files;
};
// `rows` must not be empty.
GradientReport report_gradients(const std::vector<nlohmann::ordered_json>& rows,
                                const std::string& title,
                                const std::string& subtitle);

}  // namespace sluice
