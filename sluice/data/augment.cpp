#include "sluice/data/augment.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

// Which pixel of the image comes to (y, x); -1 if none does. The steps undo
// those of Augmentation, last first.
class Source {
 public:
  Source(const ImageInput& input, const Change& change)
      : input_(input),
        change_(change),
        cos_(std::cos(change.radians)),
        sin_(std::sin(change.radians)) {}

  std::int64_t operator()(std::int64_t y, std::int64_t x) const {
    if (change_.radians != 0 && !turn(y, x)) return -1;
    if (change_.flip) x = input_.width - 1 - x;
    y += change_.down;
    x += change_.right;
    return inside(y, x) ? y * input_.width + x : -1;
  }

 private:
  bool inside(std::int64_t y, std::int64_t x) const {
    return y >= 0 && y < input_.height && x >= 0 && x < input_.width;
  }

  bool turn(std::int64_t& y, std::int64_t& x) const {
    const double middle_y = static_cast<double>(input_.height - 1) / 2;
    const double middle_x = static_cast<double>(input_.width - 1) / 2;
    const double dy = static_cast<double>(y) - middle_y;
    const double dx = static_cast<double>(x) - middle_x;
    y = std::llround(middle_y + cos_ * dy - sin_ * dx);
    x = std::llround(middle_x + sin_ * dy + cos_ * dx);
    return inside(y, x);
  }

  const ImageInput& input_;
  const Change& change_;
  double cos_;
  double sin_;
};

}  // namespace

Change draw_change(const Augmentation& augmentation, std::uint64_t random) {
  // Each choice has a hash of its own, so that one more kind of change would
  // leave the others as they are.
  enum : std::uint64_t { kDown, kRight, kFlip, kTurn };
  const auto side = static_cast<std::uint64_t>(2 * augmentation.crop_pad + 1);
  Change change;
  change.down = static_cast<std::int64_t>(bounded(mix64(random, kDown), side)) -
                augmentation.crop_pad;
  change.right =
      static_cast<std::int64_t>(bounded(mix64(random, kRight), side)) -
      augmentation.crop_pad;
  change.flip = augmentation.flip && bounded(mix64(random, kFlip), 2) == 1;
  if (augmentation.degrees > 0) {
    const double unit =
        static_cast<double>(mix64(random, kTurn) >> 11) * 0x1p-53;
    change.radians =
        (2 * unit - 1) * augmentation.degrees * std::numbers::pi / 180;
  }
  return change;
}

Normalisation::Normalisation(std::span<const double> mean,
                             std::span<const double> deviation) {
  require(mean.size() == deviation.size(),
          "[normalise] there must be as many deviations as means, got ",
          deviation.size(), " and ", mean.size());
  for (std::size_t c = 0; c < mean.size(); ++c) {
    for (int byte = 0; byte < 256; ++byte) {
      table_.push_back(
          static_cast<float>((byte / 255.0 - mean[c]) / deviation[c]));
    }
  }
}

void render(const ImageInput& input, std::span<const std::uint8_t> image,
            const Change& change, const Normalisation& normalisation,
            std::span<float> out) {
  const Source source(input, change);
  const std::int64_t plane = input.height * input.width;
  for (std::int64_t y = 0; y < input.height; ++y) {
    for (std::int64_t x = 0; x < input.width; ++x) {
      const std::int64_t from = source(y, x);
      const std::int64_t to = y * input.width + x;
      for (std::int64_t c = 0; c < input.channels; ++c) {
        const std::uint8_t byte =
            from < 0 ? std::uint8_t{0}
                     : image[static_cast<std::size_t>(c * plane + from)];
        out[static_cast<std::size_t>(c * plane + to)] = normalisation(c, byte);
      }
    }
  }
}

}  // namespace sluice
