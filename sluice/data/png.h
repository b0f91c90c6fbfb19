#pragma once

#include "sluice/data/image.h"

// PNG through libpng; png.cpp, or no_png.cpp in a build without.

namespace sluice {

bool reads_png();

// Grey, palette and RGB of any depth, with or without alpha, interlaced or not;
// 16 bits are rounded to 8. Always decodes all of it. See open_image.
std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t> bytes);

}  // namespace sluice
