// Reads configurations as anyone may have made them; those it takes survive
// another trip.

#include <cmath>

#include "readers.h"
#include "sluice/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  TrainConfig config;
  try {
    change_by_json(config, "fuzz", fuzz::as_text(data, size));
  } catch (const std::invalid_argument&) {
    return 0;
  }
  // JSON has no word for what check_config() refuses later.
  if (!std::isfinite(config.density)) return 0;
  TrainConfig again;
  change_by_json(again, "fuzz", to_json(config));
  fuzz::expect_that(difference(config, again).empty(),
                    "a configuration changed on another trip");
  return 0;
}
