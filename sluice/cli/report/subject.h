#pragma once

#include <string>
#include <vector>

#include "sluice/report/page.h"

// The page of what `sluice report` is given.

namespace sluice {

struct ReportRequest {
  // Run folders, or one of: a folder of runs, of a comparison or of a study, a
  // plan.json, a study.json.
  std::vector<std::string> paths;
  std::string target;  // a score as people read it, or "dense-0.5"; empty: that
  std::string folder = ".";  // where the page will be, for links to others
  int refresh_s = 0;         // see Page; then what is not finished is running
};

// Throws std::invalid_argument for what has no page. Whatever is missing,
// damaged or of another version in a folder is a note in the page.
Page make_page(const ReportRequest& request);

}  // namespace sluice
