// Reads lines of metrics.jsonl as anyone may have made them; those it takes
// survive another trip.

#include "readers.h"
#include "sluice/run/metrics_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const auto line = metrics_line_from_json(fuzz::as_text(data, size));
  if (!line) return 0;
  const auto again = metrics_line_from_json(to_json(*line));
  fuzz::expect_that(again && to_json(*again) == to_json(*line),
                    "a line changed on another trip");
  return 0;
}
