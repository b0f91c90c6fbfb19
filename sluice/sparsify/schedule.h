#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/params.h"

namespace sluice {

// The density of each epoch.
//
//   (empty)                   the target throughout
//   warmup:epochs=4           DGC's exponential warm-up to the target
//   0.25,0.0625,0.015625      one density per epoch, then the target
//   dense:epochs=5            dense epochs first
class DensitySchedule {
 public:
  // `target` is the density after the warm-up. Throws std::invalid_argument if
  // a density is not above 0 and at most 1, or the text is none of the above.
  DensitySchedule(std::string_view text, double target);

  double density(std::uint64_t epoch) const;

 private:
  double target_;
  std::vector<double> warmup_;
};

// What there is, for listings.
std::vector<Description> schedule_descriptions();

}  // namespace sluice
