#include <stdexcept>

#include "sluice/data/jpeg.h"

namespace sluice {
namespace {

[[noreturn]] void fail() {
  throw std::runtime_error(
      "[jpeg] needs a build with libjpeg-turbo, got one without; install "
      "libjpeg62-turbo-dev, configure and build again");
}

}  // namespace

bool reads_jpeg() { return false; }

std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t>) {
  fail();
}

Extent decode_whole_jpeg(std::span<const std::uint8_t>,
                         std::vector<std::uint8_t>&) {
  fail();
}

std::vector<std::uint8_t> encode_jpeg(const Extent&,
                                      std::span<const std::uint8_t>, int) {
  fail();
}

}  // namespace sluice
