#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "sluice/backend/memory.h"

namespace sluice {

// Times passes, and the floor of every select: r += g over n elements, by the
// fastest kernels that the device has.
class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds that the work takes on the device that `enqueue` puts on the
  // stream, without what the host takes to put it there. Caches are cold.
  virtual double time(Stream& stream, const std::function<void()>& enqueue) = 0;
  // Seconds of one pass of the floor. The first call tries all kernels and
  // keeps the best.
  virtual double floor(Stream& stream, float* r, const float* g,
                       std::size_t n) = 0;
};

std::unique_ptr<Clock> make_cpu_clock(std::size_t threads);
std::unique_ptr<Clock> make_cuda_clock();

}  // namespace sluice
