#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"

// How fast samples are made, for `sluice bench data`; needs no torch to call.

namespace sluice {

// Seconds for some samples.
struct LoadingTime {
  double wall = 0;
  double cpu = 0;  // of all threads of the process
  std::size_t samples = 0;
};

struct LoadingOptions {
  std::size_t threads = 1;
  std::size_t prefetch = 2;
  std::size_t batch = 64;
  std::size_t batches = 4;  // that are timed, after some that are not
};

// Batches of these samples by a Loader that does nothing else.
LoadingTime time_loader(const Dataset& dataset,
                        const std::vector<std::size_t>& which,
                        const LoadingOptions& options);

// The same of samples that are not augmented, as often over as it takes.
LoadingTime time_evaluation(const Dataset& dataset,
                            const std::vector<std::size_t>& which,
                            const LoadingOptions& options);

// All of `files`, which are JPEG, decoded by libjpeg-turbo as they are, by so
// many threads; see decode_whole_jpeg.
LoadingTime time_decoding(const std::vector<std::vector<std::uint8_t>>& files,
                          std::size_t threads);

}  // namespace sluice
