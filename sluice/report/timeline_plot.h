#pragma once

#include <string>

namespace sluice {

// One step of a trace.json (see write_timeline) as a picture for a page: a lane
// per rank for computing, selecting and the exchange. The last step that all
// ranks have, of at most four ranks.
struct TimelinePicture {
  std::string svg;   // empty: there is none
  std::string note;  // what it shows, or why there is none
};
TimelinePicture draw_timeline(const std::string& trace_json);

}  // namespace sluice
