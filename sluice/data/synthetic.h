#pragma once

#include "sluice/data/memory_dataset.h"

namespace sluice {

// Images that need no files: each class has a picture of random bytes, in
// squares of 4 x 4 pixels that convolutions can see, and a sample is its
// class's picture mixed with random bytes of its own, pixel by pixel. A hash of
// (seed, split, index, pixel) makes them, so they are alike everywhere; the
// test split has the same pictures and other samples.
class Synthetic final : public MemoryDataset {
 public:
  static constexpr std::string_view kName = "synthetic";
  static constexpr std::string_view kSummary =
      "noisy copies of one random picture per class; needs no files";
  struct Params {
    std::int64_t channels = 1;
    std::int64_t height = 28;
    std::int64_t width = 28;
    std::int64_t classes = 10;
    std::int64_t train = 8192;
    std::int64_t test = 2048;
    double noise = 0.8;
    std::int64_t seed = 1;
  };
  static ParamList list(Params& p);

  Synthetic(const Params& params, const DatasetPlace& place);

 private:
  static Content generate(const Params& params, Split split);
};

}  // namespace sluice
