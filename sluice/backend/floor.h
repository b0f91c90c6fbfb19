#pragma once

#include <cstddef>
#include <memory>

namespace sluice {

// The floor of every select on the CPU: r += g over n elements, by the fastest
// kernels that the machine has, on so many threads.
class Floor {
 public:
  explicit Floor(std::size_t threads);
  ~Floor();
  // Seconds of one pass. The first call tries all kernels and keeps the best.
  double time(float* r, const float* g, std::size_t n);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
