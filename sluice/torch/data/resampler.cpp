#include <algorithm>
#include <cmath>

#include "sluice/torch/data/view.h"

namespace sluice {
namespace {

// Four floats: a pixel.
using Pixel = float __attribute__((vector_size(16)));

// [begin, begin + length) becomes `size` pixels; those in [least, most) may be
// looked at.
void choose_taps(double begin, double length, std::int64_t least,
                 std::int64_t most, std::int64_t size, Resampler::Taps& taps) {
  const double ratio = length / static_cast<double>(size);
  const double support = std::max(ratio, 1.0);
  taps.most = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  const auto n = static_cast<std::size_t>(size);
  taps.first.resize(n);
  taps.count.resize(n);
  taps.weights.assign(n * static_cast<std::size_t>(taps.most), 0);
  for (std::size_t i = 0; i < n; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * ratio;
    const auto from = static_cast<std::int64_t>(
        std::floor(std::max(centre - support + 0.5, 0.0)));
    const auto to =
        static_cast<std::int64_t>(std::floor(centre + support + 0.5));
    const std::int64_t first = std::clamp(from, least, most - 1);
    const std::int64_t last = std::clamp(to, first + 1, most);
    float* weights = &taps.weights[i * static_cast<std::size_t>(taps.most)];
    double sum = 0;
    const auto weight = [&](std::int64_t x) {
      const double away = std::abs(static_cast<double>(x) + 0.5 - centre);
      // Above zero, so that there is always something to divide by.
      return std::max(1 - away / support, 1e-9);
    };
    for (std::int64_t x = first; x < last; ++x) sum += weight(x);
    for (std::int64_t x = first; x < last; ++x) {
      weights[x - first] = static_cast<float>(weight(x) / sum);
    }
    taps.first[i] = first;
    taps.count[i] = last - first;
  }
}

void flip_taps(Resampler::Taps& taps) {
  std::reverse(taps.first.begin(), taps.first.end());
  std::reverse(taps.count.begin(), taps.count.end());
  const std::size_t n = taps.first.size();
  const auto most = static_cast<std::ptrdiff_t>(taps.most);
  for (std::size_t i = 0; i < n / 2; ++i) {
    const auto left =
        taps.weights.begin() + static_cast<std::ptrdiff_t>(i) * most;
    const auto right =
        taps.weights.begin() + static_cast<std::ptrdiff_t>(n - 1 - i) * most;
    std::swap_ranges(left, left + most, right);
  }
}

// out = sum of weights * rows, two rows at a time: half the passes over out.
void mix_rows(const std::uint8_t* row, std::size_t stride, std::int64_t count,
              const float* weights, std::size_t n, float* __restrict out) {
  std::fill_n(out, n, 0.0F);
  for (; count >= 2; count -= 2, row += 2 * stride, weights += 2) {
    const std::uint8_t* below = row + stride;
    for (std::size_t i = 0; i < n; ++i) {
      out[i] += weights[0] * static_cast<float>(row[i]) +
                weights[1] * static_cast<float>(below[i]);
    }
  }
  if (count == 0) return;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] += weights[0] * static_cast<float>(row[i]);
  }
}

Pixel load(const float* from) {
  Pixel pixel;
  __builtin_memcpy(&pixel, from, sizeof(pixel));
  return pixel;
}

}  // namespace

Resampler::Resampler(std::int64_t size, const std::array<double, 3>& mean,
                     const std::array<double, 3>& deviation)
    : size_(size), gain_{}, offset_{} {
  for (std::size_t c = 0; c < 3; ++c) {
    gain_[c] = static_cast<float>(1 / (255 * deviation[c]));
    offset_[c] = static_cast<float>(-mean[c] / deviation[c]);
  }
}

void Resampler::resample(const Pixels& pixels, const View& view,
                         std::span<float> out) {
  const auto choose = [&](double begin, double length, double reach_begin,
                          double reach_length, std::int64_t origin,
                          std::int64_t extent, Taps& taps) {
    const auto scaled = [&](double x) {
      return x * pixels.scale - static_cast<double>(origin);
    };
    const auto least = static_cast<std::int64_t>(
        std::max(0.0, std::floor(scaled(reach_begin))));
    const auto most =
        std::min(extent, static_cast<std::int64_t>(
                             std::ceil(scaled(reach_begin + reach_length))));
    choose_taps(scaled(begin), length * pixels.scale, least, most, size_, taps);
  };
  const Box& box = view.box;
  const Box& reach = view.reach;
  choose(box.x, box.width, reach.x, reach.width, pixels.left,
         pixels.extent.width, across_);
  choose(box.y, box.height, reach.y, reach.height, pixels.top,
         pixels.extent.height, down_);
  const std::int64_t begin = across_.first.front();
  const std::int64_t end = across_.first.back() + across_.count.back();
  if (view.flip) flip_taps(across_);
  row_.resize(static_cast<std::size_t>(4 * (end - begin)));

  const Pixel gain = load(gain_.data());
  const Pixel offset = load(offset_.data());
  const auto plane = static_cast<std::size_t>(size_ * size_);
  const auto stride = static_cast<std::size_t>(4 * pixels.extent.width);
  for (std::size_t y = 0; y < static_cast<std::size_t>(size_); ++y) {
    mix_rows(pixels.row(down_.first[y]) + 4 * begin, stride, down_.count[y],
             &down_.weights[y * static_cast<std::size_t>(down_.most)],
             row_.size(), row_.data());
    float* to = out.data() + y * static_cast<std::size_t>(size_);
    for (std::size_t x = 0; x < static_cast<std::size_t>(size_); ++x) {
      const float* from = row_.data() + 4 * (across_.first[x] - begin);
      const float* weights =
          &across_.weights[x * static_cast<std::size_t>(across_.most)];
      Pixel sum = {};
      for (std::int64_t i = 0; i < across_.count[x]; ++i) {
        sum += weights[i] * load(from + 4 * i);
      }
      sum = sum * gain + offset;
      to[x] = sum[0];
      to[plane + x] = sum[1];
      to[2 * plane + x] = sum[2];
    }
  }
}

}  // namespace sluice
