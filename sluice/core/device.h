#pragma once

#include <bit>

// Marks a function that runs on the host and in device code alike.
//
// Such functions use plain data, <cmath> and constexpr functions only, of the
// standard library too: nvcc takes those with --expt-relaxed-constexpr.
#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif

namespace sluice {

// By value: std::min and its like take references, and a constant of the host
// has no address on a device.
template <class T>
SLUICE_HD constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}

template <class T>
SLUICE_HD constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

template <class T>
SLUICE_HD constexpr T clamp_to(T x, T low, T high) {
  return x < low ? low : high < x ? high : x;
}

// Bits up to the highest that is set. std::bit_width is wrong in device code of
// nvcc 13.0.
SLUICE_HD constexpr unsigned bit_width_of(unsigned long x) {
#ifdef __CUDA_ARCH__
  return 64 - static_cast<unsigned>(__clzll(static_cast<long long>(x)));
#else
  return static_cast<unsigned>(std::bit_width(x));
#endif
}

}  // namespace sluice
