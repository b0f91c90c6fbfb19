#pragma once

#include <cstddef>
#include <span>

// What a model of speech sees of a clip; needs no torch to call.

namespace sluice {

// Of 16 kHz: 20 ms windows, a new one every 10 ms.
inline constexpr std::size_t kSpectrumWindow = 320;
inline constexpr std::size_t kSpectrumStride = 160;
inline constexpr std::size_t kSpectrumBins = kSpectrumWindow / 2 + 1;
// Below that a clip cannot be mirrored at its ends.
inline constexpr std::size_t kLeastSpectrumSamples = kSpectrumWindow / 2 + 1;

// Windows of so many samples.
constexpr std::size_t spectrogram_frames(std::size_t samples) {
  return samples / kSpectrumStride + 1;
}

// log(1 + |STFT|) of a clip at kSpeechRate: Hamming windows (torch's, periodic)
// centred on every 160th sample, the clip mirrored at its ends, and then
// normalised as a whole to mean 0 and deviation 1 (of n - 1, as torch's std).
// Digital silence gives zeros.
//
// `out` is kSpectrumBins x spectrogram_frames(samples.size()), lowest frequency
// first. In Python:
//
//   s = torch.stft(x, 320, 160, window=torch.hamming_window(320),
//                  return_complex=True).abs().log1p()
//   s = (s - s.mean()) / s.std()
//
// Thread-safe. Throws std::invalid_argument for fewer than
// kLeastSpectrumSamples samples, and if `out` has another size.
void write_spectrogram(std::span<const float> samples, std::span<float> out);

// Lets torch use one thread from now on, for `sluice bench audio`.
void keep_torch_to_one_thread();

}  // namespace sluice
