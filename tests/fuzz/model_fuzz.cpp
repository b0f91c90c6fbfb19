// Reads what a checkpoint says of its run, as anyone may have written it.

#include "readers.h"
#include "sluice/run/run_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const std::string input = fuzz::sealed_checkpoint(fuzz::as_text(data, size));
  const std::string path = fuzz::file_of(std::as_bytes(std::span(input)));
  try {
    const RunState state = run_state_of(Checkpoint::read(path), path);
    fuzz::expect_that(state.progress.steps_per_epoch > 0, "an empty epoch");
    fuzz::expect_that(!to_json(state).empty(), "it cannot be written again");
  } catch (const std::runtime_error&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
