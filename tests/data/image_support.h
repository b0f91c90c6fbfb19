#pragma once

#include <functional>

#include "files.h"
#include "sluice/data/image.h"

// Writes images of all kinds, straight through libjpeg and libpng.

namespace sluice::testing {

// Bytes of pixel (x, y), as many as there are channels.
using Paint = std::function<std::vector<int>(std::int64_t, std::int64_t)>;

// Smooth, with all channels different: colour subsampling blurs little.
std::vector<int> smooth(std::int64_t x, std::int64_t y);
// No two neighbours alike.
std::vector<int> rough(std::int64_t x, std::int64_t y);
Paint flat(const std::vector<int>& colour);

struct JpegKind {
  int channels = 3;  // 1: grey, 3: RGB in, YCbCr in the file, 4: CMYK
  int quality = 95;
  int across = 2;  // colour subsampling
  int down = 2;
  bool progressive = false;
  Bytes exif{};  // contents of an APP1 segment
};
Bytes jpeg(const Extent& extent, const Paint& paint, const JpegKind& kind = {});

struct PngKind {
  int colour = 2;  // as PNG counts: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6
  int depth = 8;   // 16: paint gives values up to 65535
  bool interlaced = false;
  // Red, green, blue of each; and their transparency.
  std::vector<std::vector<int>> palette{};
  Bytes transparency{};
};
Bytes png(const Extent& extent, const Paint& paint, const PngKind& kind = {});

// All of it, as the library reads it.
Pixels read_all(const Bytes& bytes, double shrink = 1);
// Red, green, blue of a pixel.
std::vector<int> pixel(const Pixels& pixels, std::int64_t x, std::int64_t y);

}  // namespace sluice::testing
