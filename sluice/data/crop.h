#pragma once

#include <array>
#include <span>
#include <vector>

#include "sluice/data/image.h"

// What of an image becomes a sample, and how.

namespace sluice {

struct Crop {
  Box box;            // fills the sample
  Box reach;          // pixels that may be mixed into it; holds `box`
  bool flip = false;  // left and right swapped
};

// Of random-resized crops.
struct CropRange {
  double least_area = 0.08;  // share of the image
  double most_area = 1;
  double most_ratio = 4.0 / 3;  // of sides, either way
  bool flip = true;             // half of the time
};

// A part of random area and ratio of sides, at a random place: the first of ten
// that fits (He et al. 2015, as in torchvision), else the largest in the
// middle. A function of the 64 random bits alone.
Crop random_crop(const Extent& image, const CropRange& range,
                 std::uint64_t random);

// What resizing the shorter side to `resize` and then cutting a square of
// `size` out of the middle leaves. `resize` must be at least `size`.
Crop central_crop(const Extent& image, std::int64_t size, std::int64_t resize);

// Turns a crop into floats, channel by channel, size x size each:
// (byte / 255 - mean) / deviation. Bilinear; where the image shrinks, each
// pixel is a mean over all that it covers, weighted by a triangle (as Pillow
// does, but without rounding in between). Keeps its memory.
class Resampler {
 public:
  Resampler(std::int64_t size, const std::array<double, 3>& mean,
            const std::array<double, 3>& deviation);

  void resample(const Pixels& pixels, const Crop& crop, std::span<float> out);

  // Which pixels go into each of a row of them, and with which weight.
  struct Taps {
    std::vector<std::int64_t> first;
    std::vector<std::int64_t> count;
    std::vector<float> weights;  // `most` for each
    std::int64_t most = 0;
    std::int64_t used = 0;  // the largest count
  };

 private:
  std::int64_t size_;
  std::array<float, 4> gain_;
  std::array<float, 4> offset_;
  Taps down_;
  Taps across_;
  std::vector<float> row_;
};

}  // namespace sluice
