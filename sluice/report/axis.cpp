#include "sluice/report/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

// Numbers that a double just holds have neighbours that it does not.
constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kMost = std::numeric_limits<double>::max();
// What is nearer to 0 than this is 0 on a linear axis.
constexpr double kNothing = 1e-300;

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
  const bool sound = std::isfinite(low) && std::isfinite(high) && low < high;
  if (!sound || count < 1 || (log && low <= 0)) return {};
  // Over less than a decade 1, 2 and 5 would be too few.
  if (log && high / low > 10) return log_ticks(low, high);
  // The difference may be more than a double holds.
  const double rough = std::isfinite(high - low) ? (high - low) / count
                                                 : high / count - low / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5.0, 2.0, 1.0}) {
    if (m * power >= rough) step = m * power;
  }
  if (!(step > 0) || !std::isfinite(step)) return {};
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
      high_ = std::min(1.3 * high_, kMost);
    }
    // Of the logarithms: the ratio may be more than a double holds.
    const double room = std::exp(0.04 * (std::log(high_) - std::log(low_)));
    low_ = std::max(low_ / room, kLeast);
    high_ = std::min(high_ * room, kMost);
    if (high_ <= low_) high_ = 2 * low_;
  } else {
    // What is constant but for rounding is a line in the middle.
    const double least = std::max(1e-9 * std::abs(high_), kNothing);
    if (high_ - low_ < least) {
      const double half = std::abs(high_) < kNothing ? 1 : std::abs(high_) / 10;
      low_ = std::max(low_ - half, -kMost);
      high_ = std::min(high_ + half, kMost);
    }
    const double room = 0.04 * high_ - 0.04 * low_;
    // Nothing that counts from 0 begins below it.
    low_ = std::max(low_ - room, low_ >= 0 ? 0.0 : -kMost);
    high_ = std::min(high_ + room, kMost);
  }
}

double Scale::operator()(double value) const {
  const auto at = [&](double v) { return log_ ? std::log(v) : v / 4; };
  const double share = (at(value) - at(low_)) / (at(high_) - at(low_));
  // Far outside is outside; viewers do not like the numbers.
  return std::clamp(share, -10.0, 10.0) * length_;
}

}  // namespace sluice
