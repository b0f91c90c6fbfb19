#include "sluice/data/synthetic.h"

#include <cmath>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

// The square of 4 x 4 that each pixel lies in, counted over the channels.
std::vector<std::uint64_t> squares_of(const ImageInput& input) {
  std::vector<std::uint64_t> squares;
  const std::int64_t across = (input.width + 3) / 4;
  const std::int64_t down = (input.height + 3) / 4;
  for (std::int64_t c = 0; c < input.channels; ++c) {
    for (std::int64_t y = 0; y < input.height; ++y) {
      for (std::int64_t x = 0; x < input.width; ++x) {
        squares.push_back(
            static_cast<std::uint64_t>((c * down + y / 4) * across + x / 4));
      }
    }
  }
  return squares;
}

}  // namespace

ParamList Synthetic::list(Params& p) {
  return {
      {"channels", &p.channels, "of an image", 1, 16},
      {"height", &p.height, "of an image", 1, 1024},
      {"width", &p.width, "of an image", 1, 1024},
      {"classes", &p.classes, "number of classes", 2, 1e5},
      {"train", &p.train, "images to train with", 1, 1e7},
      {"test", &p.test, "images to test with", 1, 1e7},
      {"noise", &p.noise, "share of an image that tells nothing", 0, 1},
      {"seed", &p.seed, "of pictures and samples", 0},
  };
}

Synthetic::Synthetic(const Params& params, const DatasetPlace& place)
    : MemoryDataset("dataset 'synthetic'", generate(params, place.split)) {
  require(place.folder.empty(),
          "[dataset 'synthetic'] there are no files to read, so no folder may "
          "be given, got '",
          place.folder, "'");
}

MemoryDataset::Content Synthetic::generate(const Params& params, Split split) {
  enum : std::uint64_t { kPicture, kTrainSample, kTestSample };
  const bool training = split == Split::kTrain;
  const auto seed = static_cast<std::uint64_t>(params.seed);
  const std::uint64_t pictures = mix64(seed, kPicture);
  const std::uint64_t samples =
      mix64(seed, training ? kTrainSample : kTestSample);
  Content content;
  content.input = {params.channels, params.height, params.width,
                   params.classes};
  content.mean.assign(static_cast<std::size_t>(params.channels), 0.5);
  content.deviation.assign(static_cast<std::size_t>(params.channels), 0.25);

  // Whole numbers throughout: no rounding that a machine could do otherwise.
  const auto noise =
      static_cast<std::uint64_t>(std::lround(params.noise * 256));
  const std::vector<std::uint64_t> squares = squares_of(content.input);
  const auto count =
      static_cast<std::uint64_t>(training ? params.train : params.test);
  content.images.reserve(count * squares.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t sample = mix64(samples, i);
    const std::uint64_t label =
        bounded(sample, static_cast<std::uint64_t>(params.classes));
    content.labels.push_back(static_cast<std::int32_t>(label));
    for (std::uint64_t j = 0; j < squares.size(); ++j) {
      const std::uint64_t clean = mix64(pictures, label, squares[j]) >> 56;
      const std::uint64_t own = mix64(sample, j) >> 56;
      content.images.push_back(static_cast<std::uint8_t>(
          (clean * (256 - noise) + own * noise) >> 8));
    }
  }
  return content;
}

}  // namespace sluice
