#include "sluice/plan/drift.h"

#include <algorithm>
#include <cmath>

namespace sluice {

void Drift::restart() {
  first_ = 0;
  window_.clear();
}

bool Drift::add(double seconds) {
  window_.push_back(seconds);
  if (window_.size() < kWindow) return false;
  const auto middle = window_.begin() + kWindow / 2;
  std::nth_element(window_.begin(), middle, window_.end());
  const double median = *middle;
  window_.clear();
  if (first_ == 0) {
    first_ = median;
    return false;
  }
  if (std::abs(median - first_) <= kFar * first_) return false;
  restart();
  return true;
}

}  // namespace sluice
