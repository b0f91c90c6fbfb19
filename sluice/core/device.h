#pragma once

// Marks a function that runs on the host and in device code alike.
//
// Such functions use plain data, <cmath> and constexpr functions only, of the
// standard library too: nvcc takes those with --expt-relaxed-constexpr.
#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
