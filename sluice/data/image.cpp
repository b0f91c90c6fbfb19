#include "sluice/data/image.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "sluice/core/error.h"
#include "sluice/data/jpeg.h"
#include "sluice/data/png.h"

namespace sluice {

void check_extent(const Extent& extent) {
  if (extent.width * extent.height <= kMostPixels) return;
  throw BrokenImage(concat("it says that it has ", extent.width, " x ",
                           extent.height, " pixels, at most ", kMostPixels,
                           " may be"));
}

std::unique_ptr<ImageReader> open_image(std::span<const std::uint8_t> bytes) {
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<std::uint8_t, 4> kPng = {0x89, 'P', 'N', 'G'};
  if (bytes.empty()) throw BrokenImage("it is empty");
  const auto begins_with = [&](const auto& mark) {
    return bytes.size() > mark.size() &&
           std::equal(mark.begin(), mark.end(), bytes.begin());
  };
  if (begins_with(kJpeg)) return open_jpeg(bytes);
  if (begins_with(kPng)) return open_png(bytes);
  std::string found;
  for (const std::uint8_t byte :
       bytes.first(std::min<std::size_t>(bytes.size(), 4))) {
    std::array<char, 4> hex;
    std::snprintf(hex.data(), hex.size(), " %02x", byte);
    found += hex.data();
  }
  throw BrokenImage("it begins as neither JPEG nor PNG does, with" + found);
}

}  // namespace sluice
