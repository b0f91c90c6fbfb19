#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// How a clip of training is changed: faster or slower, louder or softer.
struct Perturbation {
  double tempo = 1;    // times as fast
  double gain_db = 0;  // louder

  friend bool operator==(const Perturbation&, const Perturbation&) = default;
};

inline constexpr double kSlowest = 0.85;
inline constexpr double kFastest = 1.15;
inline constexpr double kSoftest = -6;
inline constexpr double kLoudest = 8;

// Uniform in tempo and decibels, by these bits alone.
Perturbation draw_perturbation(std::uint64_t random);

// `samples` at kSpeechRate, `tempo` times as fast and at the same pitch: pieces
// of 30 ms are moved to where they overlap best and are faded into each other
// (WSOLA, Verhelst and Roelands 1993). Their number becomes round(size /
// tempo), at least 1. Clips below 60 ms come back resized with silence or cut.
// Throws std::invalid_argument for a tempo outside [0.25, 4].
std::vector<float> change_tempo(std::span<const float> samples, double tempo);

// Both; what gets too loud is clipped to [-1, 1].
std::vector<float> perturb(std::span<const float> samples,
                           const Perturbation& how);

}  // namespace sluice
