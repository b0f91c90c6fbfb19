// Reads checkpoints as anyone may have made them: half of the inputs as they
// are, half of them with sizes and checksums that are right.

#include "readers.h"
#include "sluice/run/rank_part.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  if (size == 0) return -1;
  std::string input(fuzz::as_text(data + 1, size - 1));
  if (*data % 2 != 0) input = fuzz::sealed_checkpoint(input);
  const std::string path = fuzz::file_of(std::as_bytes(std::span(input)));
  try {
    const Checkpoint file = Checkpoint::read(path);
    std::size_t bytes = 0;
    for (const StoredTensor& tensor : file.tensors()) {
      bytes += tensor.data.size();
    }
    fuzz::expect_that(bytes <= input.size(), "tensors outside the file");
    origin_of(file);
    read_rank_part(path, {}, 0);
  } catch (const std::runtime_error&) {
  }
  return 0;
}
