#include "sluice/data/crop.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

double unit(std::uint64_t random) {
  return static_cast<double>(random >> 11) * 0x1p-53;
}

Box box_of(std::int64_t x, std::int64_t y, const Extent& extent) {
  return {static_cast<double>(x), static_cast<double>(y),
          static_cast<double>(extent.width),
          static_cast<double>(extent.height)};
}

// The largest in the middle whose sides have an allowed ratio.
Box middle(const Extent& image, double most_ratio) {
  Extent kept = image;
  const double ratio =
      static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio < 1 / most_ratio) {
    kept.height = std::llround(static_cast<double>(image.width) * most_ratio);
  } else if (ratio > most_ratio) {
    kept.width = std::llround(static_cast<double>(image.height) * most_ratio);
  }
  return box_of((image.width - kept.width) / 2,
                (image.height - kept.height) / 2, kept);
}

Box random_box(const Extent& image, const CropRange& range,
               std::uint64_t random) {
  enum : std::uint64_t { kArea = 1, kRatio, kX, kY, kCount };
  const auto area = static_cast<double>(image.width * image.height);
  for (std::uint64_t attempt = 0; attempt < 10; ++attempt) {
    const auto draw = [&](std::uint64_t what) {
      return mix64(random, attempt * kCount + what);
    };
    const double wanted =
        area * (range.least_area +
                unit(draw(kArea)) * (range.most_area - range.least_area));
    const double ratio =
        std::exp((2 * unit(draw(kRatio)) - 1) * std::log(range.most_ratio));
    const Extent kept = {std::llround(std::sqrt(wanted * ratio)),
                         std::llround(std::sqrt(wanted / ratio))};
    if (kept.width < 1 || kept.width > image.width || kept.height < 1 ||
        kept.height > image.height) {
      continue;
    }
    const auto place = [&](std::uint64_t what, std::int64_t room) {
      return static_cast<std::int64_t>(
          bounded(draw(what), static_cast<std::uint64_t>(room + 1)));
    };
    return box_of(place(kX, image.width - kept.width),
                  place(kY, image.height - kept.height), kept);
  }
  return middle(image, range.most_ratio);
}

// [begin, begin + length) of an image that was resized from `from` to `to`, in
// pixels before that.
struct Range {
  double begin;
  double length;
  double reach_begin;
  double reach_length;
};
Range before_resize(std::int64_t begin, std::int64_t length, std::int64_t from,
                    std::int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  Range range;
  range.begin = static_cast<double>(begin) * ratio;
  range.length = static_cast<double>(length) * ratio;
  // As far as the triangle of the outermost pixels goes.
  const double margin = std::max(ratio, 1.0) + 1;
  range.reach_begin = std::max(0.0, std::floor(range.begin - margin));
  range.reach_length =
      std::min(static_cast<double>(from),
               std::ceil(range.begin + range.length + margin)) -
      range.reach_begin;
  return range;
}

}  // namespace

Crop random_crop(const Extent& image, const CropRange& range,
                 std::uint64_t random) {
  Crop crop;
  crop.box = random_box(image, range, random);
  crop.reach = crop.box;
  crop.flip = range.flip && bounded(mix64(random, 0), 2) == 1;
  return crop;
}

Crop central_crop(const Extent& image, std::int64_t size, std::int64_t resize) {
  const std::int64_t shorter = std::min(image.width, image.height);
  const Extent resized = {image.width * resize / shorter,
                          image.height * resize / shorter};
  // Half to even, as Python rounds.
  const auto begin = [&](std::int64_t length) {
    return static_cast<std::int64_t>(
        std::nearbyint(static_cast<double>(length - size) / 2));
  };
  const Range x =
      before_resize(begin(resized.width), size, image.width, resized.width);
  const Range y =
      before_resize(begin(resized.height), size, image.height, resized.height);
  return {{x.begin, y.begin, x.length, y.length},
          {x.reach_begin, y.reach_begin, x.reach_length, y.reach_length},
          false};
}

}  // namespace sluice
