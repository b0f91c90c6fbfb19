#pragma once

#include <cstddef>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/backend/cpu/thread_pool.h"

namespace sluice {

// The floor of every select: r += g over n elements, by the fastest kernels the
// machine has, on the same threads.
class Floor {
 public:
  explicit Floor(cpu::ThreadPool& pool) : pool_(pool) {}
  // Seconds of one pass. The first call tries all kernels and keeps the best.
  double time(float* r, const float* g, std::size_t n);

 private:
  double pass(const cpu::Kernels& kernels, float* r, const float* g,
              std::size_t n);

  cpu::ThreadPool& pool_;
  const cpu::Kernels* best_ = nullptr;
};

}  // namespace sluice
