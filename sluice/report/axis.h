#pragma once

#include <string>
#include <vector>

// Axes of charts: from values to places.

namespace sluice {

struct Axis {
  std::string label;
  bool log = false;  // then what is not above 0 is left out; the label says it
  // The share of the values at either end that may lie outside, so that a few
  // do not make the rest small.
  double cut_low = 0;
  double cut_high = 0;
  bool from_zero = false;  // 0 is part of it, whatever the values
};

// Whether a value has a place on the axis.
bool shows(double value, const Axis& axis);

// Where to write numbers along an axis from `low` to `high`: round values,
// about `count` of them; for a logarithmic one over more than a decade 1, 2 and
// 5 times powers of ten. Empty unless `low` and `high` are finite and in order,
// and above 0 on a logarithmic axis.
std::vector<double> ticks(double low, double high, bool log, int count);

// From values to positions along an axis that is `length` long and has room for
// all of `values`.
class Scale {
 public:
  Scale(std::vector<double> values, const Axis& axis, double length);

  double operator()(double value) const;
  std::vector<double> ticks(int count) const {
    return sluice::ticks(low_, high_, log_, count);
  }

 private:
  bool log_;
  double length_;
  double low_ = 0;
  double high_ = 1;
};

}  // namespace sluice
