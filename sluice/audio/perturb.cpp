#include "sluice/audio/perturb.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sluice/core/error.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

// Of 16 kHz: pieces of 30 ms, each half over the next, moved by up to 8 ms: a
// whole period of any voice above 125 Hz, half of one above 62 Hz, either way.
constexpr std::size_t kPiece = 480;
constexpr std::size_t kHop = kPiece / 2;
constexpr std::ptrdiff_t kReach = 128;

// In [low, high).
double uniform(std::uint64_t random, double low, double high) {
  return low + (high - low) * static_cast<double>(random >> 11) * 0x1p-53;
}

// How alike two pieces are, every `step`-th sample of them: their product over
// the loudness of the second.
float likeness(const float* wanted, const float* piece, std::size_t step) {
  float product[4] = {};
  float energy[4] = {};
  for (std::size_t i = 0; i + 3 * step < kPiece; i += 4 * step) {
    for (std::size_t l = 0; l < 4; ++l) {
      const float p = piece[i + l * step];
      product[l] += wanted[i + l * step] * p;
      energy[l] += p * p;
    }
  }
  const float all = energy[0] + energy[1] + energy[2] + energy[3];
  const float sum = product[0] + product[1] + product[2] + product[3];
  return sum / std::sqrt(all + 1e-9F);
}

// Where near `at` the piece begins that is most like the one at `wanted`: first
// roughly, then by the sample.
std::ptrdiff_t best_place(std::span<const float> in, std::ptrdiff_t wanted,
                          std::ptrdiff_t at) {
  const auto last = static_cast<std::ptrdiff_t>(in.size() - kPiece);
  at = std::clamp<std::ptrdiff_t>(at, 0, last);
  if (wanted > last) return at;
  const auto search = [&](std::ptrdiff_t middle, std::ptrdiff_t reach,
                          std::ptrdiff_t step, std::size_t stride) {
    std::ptrdiff_t best = middle;
    float most = -1e30F;
    for (auto t = middle - reach; t <= middle + reach; t += step) {
      if (t < 0 || t > last) continue;
      const float like = likeness(&in[static_cast<std::size_t>(wanted)],
                                  &in[static_cast<std::size_t>(t)], stride);
      if (like > most) {
        most = like;
        best = t;
      }
    }
    return best;
  };
  return search(search(at, kReach, 4, 4), 3, 1, 1);
}

std::vector<float> fade() {
  std::vector<float> window(kPiece);
  for (std::size_t i = 0; i < kPiece; ++i) {
    const double turn = (static_cast<double>(i) + 0.5) / kPiece;
    window[i] =
        static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * turn));
  }
  return window;
}

}  // namespace

Perturbation draw_perturbation(std::uint64_t random) {
  return {uniform(mix64(random, 1), kSlowest, kFastest),
          uniform(mix64(random, 2), kSoftest, kLoudest)};
}

std::vector<float> change_tempo(std::span<const float> samples, double tempo) {
  require(tempo >= 0.25 && tempo <= 4,
          "[perturb] tempo must be from 0.25 to 4, got ", tempo);
  const auto size = std::max<std::size_t>(
      1, static_cast<std::size_t>(
             std::llround(static_cast<double>(samples.size()) / tempo)));
  std::vector<float> out(samples.begin(), samples.end());
  if (samples.size() < 2 * kPiece || tempo == 1) {
    out.resize(size);
    return out;
  }
  const std::vector<float> window = fade();
  out.assign(size + kPiece, 0);
  std::vector<float> weight(size + kPiece);
  std::ptrdiff_t from = 0;
  for (std::size_t to = 0; to < size; to += kHop) {
    if (to > 0) {
      const auto nominal = static_cast<std::ptrdiff_t>(
          std::llround(static_cast<double>(to) * tempo));
      from = best_place(samples, from + static_cast<std::ptrdiff_t>(kHop),
                        nominal);
    }
    for (std::size_t i = 0; i < kPiece; ++i) {
      out[to + i] += window[i] * samples[static_cast<std::size_t>(from) + i];
      weight[to + i] += window[i];
    }
  }
  out.resize(size);
  // Within the clip the weights are 1; at its beginning half a window is alone.
  for (std::size_t i = 0; i < size; ++i) {
    out[i] /= std::max(weight[i], 1e-3F);
  }
  return out;
}

std::vector<float> perturb(std::span<const float> samples,
                           const Perturbation& how) {
  std::vector<float> out = change_tempo(samples, how.tempo);
  const auto gain = static_cast<float>(std::pow(10.0, how.gain_db / 20));
  for (float& value : out) value = std::clamp(value * gain, -1.0F, 1.0F);
  return out;
}

}  // namespace sluice
