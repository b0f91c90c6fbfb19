// Reads lists of labels as anyone may have made them; those it takes tell all
// of their letters apart.

#include "readers.h"
#include "sluice/audio/labels.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  try {
    const Labels labels = parse_labels("fuzz", fuzz::as_text(data, size));
    const std::string text = labels.letters().substr(1);
    fuzz::expect_that(labels.decode(labels.encode("fuzz", text)) == text,
                      "letters changed on another trip");
  } catch (const std::runtime_error&) {
  }
  return 0;
}
