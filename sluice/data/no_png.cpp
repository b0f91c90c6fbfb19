#include <stdexcept>

#include "sluice/data/png.h"

namespace sluice {

bool reads_png() { return false; }

std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t>) {
  throw std::runtime_error(
      "[png] needs a build with libpng, got one without; install libpng-dev, "
      "configure and build again");
}

}  // namespace sluice
