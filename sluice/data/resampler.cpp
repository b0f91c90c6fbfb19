#include <algorithm>
#include <cmath>

#include "sluice/data/crop.h"

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
  taps.used = *std::max_element(taps.count.begin(), taps.count.end());
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

// out (+)= the sum of kRows rows, each times its weight.
template <int kRows, bool kAdd>
void mix(const std::uint8_t* row, std::size_t stride, const float* weights,
         std::size_t n, float* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    float sum = weights[0] * static_cast<float>(row[i]);
    for (int r = 1; r < kRows; ++r) {
      sum += weights[r] *
             static_cast<float>(row[static_cast<std::size_t>(r) * stride + i]);
    }
    out[i] = kAdd ? out[i] + sum : sum;
  }
}

// out = the sum of `count` rows, each times its weight. Up to four at once:
// most of the time that is all of them, and out is written once.
void mix_rows(const std::uint8_t* row, std::size_t stride, std::int64_t count,
              const float* weights, std::size_t n, float* __restrict out) {
  switch (std::min<std::int64_t>(count, 4)) {
    case 1:
      return mix<1, false>(row, stride, weights, n, out);
    case 2:
      return mix<2, false>(row, stride, weights, n, out);
    case 3:
      return mix<3, false>(row, stride, weights, n, out);
    default:
      mix<4, false>(row, stride, weights, n, out);
  }
  std::int64_t done = 4;
  for (; done + 4 <= count; done += 4) {
    mix<4, true>(row + static_cast<std::size_t>(done) * stride, stride,
                 weights + done, n, out);
  }
  for (; done < count; ++done) {
    mix<1, true>(row + static_cast<std::size_t>(done) * stride, stride,
                 weights + done, n, out);
  }
}

Pixel load(const float* from) {
  Pixel pixel;
  __builtin_memcpy(&pixel, from, sizeof(pixel));
  return pixel;
}

// One row of the sample, from a row of pixels of which the first is number
// `begin`. All take `used` pixels, some with a weight of zero: a loop of one
// length is faster than a shorter one that cannot be foreseen. kUsed is that
// number, or 0 for any.
template <int kUsed>
void mix_columns(const float* row, std::int64_t begin,
                 const Resampler::Taps& taps, Pixel gain, Pixel offset,
                 float* out, std::size_t plane) {
  const std::int64_t used = kUsed > 0 ? kUsed : taps.used;
  const float* weights = taps.weights.data();
  for (std::size_t x = 0; x < taps.first.size(); ++x, weights += taps.most) {
    const float* from = row + 4 * (taps.first[x] - begin);
    Pixel sum = weights[0] * load(from);
    for (std::int64_t i = 1; i < used; ++i) {
      sum += weights[i] * load(from + 4 * i);
    }
    sum = sum * gain + offset;
    out[x] = sum[0];
    out[plane + x] = sum[1];
    out[2 * plane + x] = sum[2];
  }
}

auto mixer_of(std::int64_t used) {
  switch (used) {
    case 2:
      return &mix_columns<2>;
    case 3:
      return &mix_columns<3>;
    case 4:
      return &mix_columns<4>;
    case 5:
      return &mix_columns<5>;
    default:
      return &mix_columns<0>;
  }
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

void Resampler::resample(const Pixels& pixels, const Crop& crop,
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
  const Box& box = crop.box;
  const Box& reach = crop.reach;
  choose(box.x, box.width, reach.x, reach.width, pixels.left,
         pixels.extent.width, across_);
  choose(box.y, box.height, reach.y, reach.height, pixels.top,
         pixels.extent.height, down_);
  const std::int64_t begin = across_.first.front();
  const std::int64_t end = across_.first.back() + across_.count.back();
  if (crop.flip) flip_taps(across_);
  const auto width = static_cast<std::size_t>(4 * (end - begin));
  // Zeros for those that look beyond the end, with a weight of zero.
  row_.assign(width + static_cast<std::size_t>(4 * across_.used), 0);

  const Pixel gain = load(gain_.data());
  const Pixel offset = load(offset_.data());
  const auto mix_across = mixer_of(across_.used);
  const auto plane = static_cast<std::size_t>(size_ * size_);
  const auto stride = static_cast<std::size_t>(4 * pixels.extent.width);
  for (std::size_t y = 0; y < static_cast<std::size_t>(size_); ++y) {
    mix_rows(pixels.row(down_.first[y]) + 4 * begin, stride, down_.count[y],
             &down_.weights[y * static_cast<std::size_t>(down_.most)], width,
             row_.data());
    mix_across(row_.data(), begin, across_, gain, offset,
               out.data() + y * static_cast<std::size_t>(size_), plane);
  }
}

}  // namespace sluice
