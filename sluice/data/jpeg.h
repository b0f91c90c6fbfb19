#pragma once

#include "sluice/data/image.h"

// JPEG through libjpeg-turbo; jpeg.cpp, or no_jpeg.cpp in a build without.

namespace sluice {

bool reads_jpeg();

// Grey, YCbCr, RGB, CMYK and YCCK, baseline and progressive. Decodes only the
// rows and columns that are wanted, and makes images smaller by 2, 4 or 8. See
// open_image.
std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> bytes);

// All of an image as red, green, blue, by the plainest use of libjpeg-turbo:
// what `sluice bench data` compares with. Throws BrokenImage.
Extent decode_whole_jpeg(std::span<const std::uint8_t> bytes,
                         std::vector<std::uint8_t>& rgb);

// The other way, with colours at half the resolution, as cameras do.
std::vector<std::uint8_t> encode_jpeg(const Extent& extent,
                                      std::span<const std::uint8_t> rgb,
                                      int quality);

}  // namespace sluice
