// Reads .npy files as anyone may have made them.

#include "readers.h"
#include "sluice/study/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const std::string path = fuzz::file_of(std::as_bytes(std::span(data, size)));
  try {
    const NpyArray array = read_npy(path);
    std::size_t n = 1;
    for (const std::size_t dim : array.dims) n *= dim;
    fuzz::expect_that(array.values.size() == n, "a shape of another size");
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
