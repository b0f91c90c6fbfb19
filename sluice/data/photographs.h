#pragma once

#include <string>

#include "sluice/data/image.h"

namespace sluice {

// Red, green and blue of something that compresses as a photograph does: detail
// at all scales, weaker the finer it is, a few edges, and a little noise. A
// function of the seed alone.
std::vector<std::uint8_t> paint_photograph(const Extent& extent,
                                           std::uint64_t seed);

// A folder for ImageFolder: `count` photographs in train, in two classes, and
// the same in val. Throws std::runtime_error if it cannot be written.
void write_photographs(const std::string& folder, std::size_t count,
                       const Extent& extent, int quality);

}  // namespace sluice
