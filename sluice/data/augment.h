#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/data/input.h"

namespace sluice {

// How a training image may be changed, in this order; all zero is not at all.
struct Augmentation {
  std::int64_t crop_pad = 0;  // pad with black by so many pixels, cut at random
  bool flip = false;          // left and right swapped, half of the time
  double degrees = 0;         // turned about its middle by up to so many
};

// The change that `augmentation` makes of one image, a function of the 64
// random bits alone.
struct Change {
  std::int64_t down = 0;  // where the cut begins, relative to the image
  std::int64_t right = 0;
  bool flip = false;
  double radians = 0;  // clockwise
};
Change draw_change(const Augmentation& augmentation, std::uint64_t random);

// Bytes to floats: (byte / 255 - mean) / deviation, per channel.
class Normalisation {
 public:
  // One mean and one deviation per channel.
  Normalisation(std::span<const double> mean,
                std::span<const double> deviation);

  float operator()(std::int64_t channel, std::uint8_t byte) const {
    return table_[static_cast<std::size_t>(channel) * 256 + byte];
  }

 private:
  std::vector<float> table_;
};

// Writes the changed, normalised image (both channels x height x width). A
// pixel from outside is black, as byte 0 is. Turning takes the nearest pixel.
void render(const ImageInput& input, std::span<const std::uint8_t> image,
            const Change& change, const Normalisation& normalisation,
            std::span<float> out);

}  // namespace sluice
