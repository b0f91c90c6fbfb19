#include "sluice/report/axis.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> all;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  const int every = std::max(1, (last - first) / 8);
  for (int e = first; e <= last; ++e) {
    for (const double m : {1.0, 2.0, 5.0}) {
      const double tick = m * std::pow(10.0, e);
      const bool wanted = m == 1 ? (e - first) % every == 0 : last - first <= 3;
      if (tick >= low && tick <= high && wanted) all.push_back(tick);
    }
  }
  return all;
}

}  // namespace

bool shows(double value, const Axis& axis) {
  return std::isfinite(value) && (!axis.log || value > 0);
}

std::vector<double> ticks(double low, double high, bool log, int count) {
  // Over less than a decade 1, 2 and 5 would be too few.
  if (log && high / low > 10) return log_ticks(low, high);
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5.0, 2.0, 1.0}) {
    if (m * power >= rough) step = m * power;
  }
  std::vector<double> all;
  // Counted, for numbers so large that adding a step changes nothing.
  const double first = std::ceil(low / step);
  for (int i = 0; i <= 2 * count && (first + i) * step <= high; ++i) {
    // Not -0, nor 1e-17 for 0.
    const double tick = (first + i) * step;
    all.push_back(std::abs(tick) < step / 2 ? 0 : tick);
  }
  return all;
}

Scale::Scale(std::vector<double> values, const Axis& axis, double length)
    : log_(axis.log), length_(length) {
  std::erase_if(values, [&](double v) { return !shows(v, axis); });
  if (values.empty()) values = {1, 2};
  if (axis.from_zero && !log_) values.push_back(0);
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(
        share * static_cast<double>(values.size() - 1))];
  };
  low_ = at(axis.cut_low);
  high_ = at(1 - axis.cut_high);
  if (log_) {
    // What hardly changes should look so.
    if (high_ / low_ < 1.5) {
      low_ /= 1.3;
      high_ *= 1.3;
    }
    const double room = std::pow(high_ / low_, 0.04);
    low_ /= room;
    high_ *= room;
  } else {
    // What is constant but for rounding is a line in the middle.
    const double least = std::max(1e-9 * std::abs(high_), 1e-300);
    if (high_ - low_ < least) {
      const double half = high_ == 0 ? 1 : std::abs(high_) / 10;
      low_ -= half;
      high_ += half;
    }
    const double room = 0.04 * (high_ - low_);
    // Nothing that counts from 0 begins below it.
    low_ = low_ >= 0 ? std::max(0.0, low_ - room) : low_ - room;
    high_ += room;
  }
}

double Scale::operator()(double value) const {
  const double share = log_ ? std::log(value / low_) / std::log(high_ / low_)
                            : (value - low_) / (high_ - low_);
  // Far outside is outside; viewers do not like the numbers.
  return std::clamp(share, -10.0, 10.0) * length_;
}

}  // namespace sluice
