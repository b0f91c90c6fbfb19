#pragma once

// Quantiles that the statistical rules need. Plain double routines without
// state, so that a device can run them.

namespace sluice {

// z with P(|N(0,1)| > z) = p, for 0 < p <= 1.
double two_sided_normal_quantile(double p);

// The regularised upper incomplete gamma function Q(a, x), a > 0, x >= 0.
double gamma_q(double a, double x);

// x with Q(a, x) = q, for a > 0 and 0 < q < 1. Works on the upper tail itself,
// so small q lose no digits.
double inverse_gamma_q(double a, double q);

double log_gamma(double a);

}  // namespace sluice
