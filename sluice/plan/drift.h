#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

// Tells when the steps of a run take longer or shorter than they used to: the
// median of a window of them is far from that of the first one. Medians, since
// a step now and then waits for something else.
class Drift {
 public:
  static constexpr std::size_t kWindow = 25;
  static constexpr double kFar = 0.15;  // of the first one

  // True if a window has just ended that is far from the first. What comes
  // next counts as the first then, as it does at the beginning.
  bool add(double seconds);
  void restart();

 private:
  double first_ = 0;  // or 0: not known yet
  std::vector<double> window_;
};

}  // namespace sluice
