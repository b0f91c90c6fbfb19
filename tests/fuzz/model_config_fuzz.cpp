// Reads config.json as anyone may have made it; what it takes of a model that
// is known survives another trip.

#include "readers.h"
#include "sluice/weights/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  ModelConfig config;
  try {
    config = parse_model_config("c", fuzz::as_text(data, size));
  } catch (const std::runtime_error&) {
    return 0;
  }
  std::string text;
  try {
    text = to_json(config);
  } catch (const std::invalid_argument&) {
    return 0;  // of another model
  }
  fuzz::expect_that(parse_model_config("c", text) == config,
                    "another trip changed it");
  return 0;
}
