#pragma once

#include <math.h>  // lgamma_r

#include <cfloat>
#include <cmath>

#include "sluice/core/device.h"

// Quantiles that the statistical rules need, on the host and on a device.

namespace sluice {

SLUICE_HD inline double log_gamma(double a) {
#ifdef __CUDA_ARCH__
  return lgamma(a);
#else
  int sign = 0;  // std::lgamma writes a global
  return lgamma_r(a, &sign);
#endif
}

// P(a, x) by its power series; converges fast for x < a + 1.
SLUICE_HD inline double gamma_p_series(double a, double x) {
  double term = 1 / a;
  double sum = term;
  for (int i = 1; i < 10000 && std::abs(term) > DBL_EPSILON * std::abs(sum);
       ++i) {
    term *= x / (a + i);
    sum += term;
  }
  return sum * std::exp(-x + a * std::log(x) - log_gamma(a));
}

// Q(a, x) by Lentz's continued fraction; converges fast for x > a + 1.
SLUICE_HD inline double gamma_q_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a;
  double c = 1 / kTiny;
  double d = 1 / b;
  double h = d;
  for (int i = 1; i < 10000; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    d = 1 / (std::abs(d) < kTiny ? kTiny : d);
    c = b + an / c;
    c = std::abs(c) < kTiny ? kTiny : c;
    h *= d * c;
    if (std::abs(d * c - 1) < DBL_EPSILON) break;
  }
  return h * std::exp(-x + a * std::log(x) - log_gamma(a));
}

// x in (lo, hi) with tail(x) = q, from x on; tail' = -density. Newton's steps
// on the logarithm of the tail, which is nearly straight, inside what is left
// of the interval.
template <class Tail, class Density>
SLUICE_HD double invert_tail(Tail&& tail, Density&& density, double q,
                             double lo, double hi, double x) {
  for (int i = 0; i < 200 && hi - lo > 1e-15 * hi; ++i) {
    const double t = tail(x);
    const double step = std::log(t / q) * t / density(x);
    if (std::abs(step) <= 1e-15 * x) return x;
    (step > 0 ? lo : hi) = x;
    x += step;
    if (!(x > lo && x < hi)) x = (lo + hi) / 2;
  }
  return x;
}

// z with P(|N(0,1)| > z) = p, for 0 < p <= 1.
SLUICE_HD inline double two_sided_normal_quantile(double p) {
  if (p >= 1) return 0;
  constexpr double kHalfRoot = 0.70710678118654752440;  // 1 / sqrt(2)
  constexpr double kPeak = 0.79788456080286535588;      // 2 / sqrt(2 pi)
  return invert_tail([](double z) { return std::erfc(z * kHalfRoot); },
                     [](double z) { return kPeak * std::exp(-z * z / 2); }, p,
                     0, 40, std::sqrt(-2 * std::log(p)));
}

// The regularised upper incomplete gamma function Q(a, x), a > 0, x >= 0.
SLUICE_HD inline double gamma_q(double a, double x) {
  if (x <= 0) return 1;
  return x < a + 1 ? 1 - gamma_p_series(a, x) : gamma_q_fraction(a, x);
}

// x with Q(a, x) = q, for a > 0 and 0 < q < 1. Works on the upper tail itself,
// so small q lose no digits.
SLUICE_HD inline double inverse_gamma_q(double a, double q) {
  const double log_scale = log_gamma(a);
  return invert_tail([&](double x) { return gamma_q(a, x); },
                     [&](double x) {
                       return std::exp(-x + (a - 1) * std::log(x) - log_scale);
                     },
                     q, 0, 1e6, a + 1);
}

}  // namespace sluice
