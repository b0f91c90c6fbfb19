#include "sluice/torch/data/spectrogram.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "sluice/core/error.h"

namespace sluice {

void write_spectrogram(std::span<const float> samples, std::span<float> out) {
  require(samples.size() >= kLeastSpectrumSamples,
          "[spectrogram] a clip must have at least ", kLeastSpectrumSamples,
          " samples (10 ms), got ", samples.size(), "; leave it out");
  const std::size_t frames = spectrogram_frames(samples.size());
  require(out.size() == kSpectrumBins * frames, "[spectrogram] ",
          samples.size(), " samples make ", kSpectrumBins, " x ", frames,
          " values, got room for ", out.size());
  const torch::NoGradGuard no_grad;
  // Torch has no tensors of constants; these are only read.
  const auto clip = torch::from_blob(
      const_cast<float*>(samples.data()),
      {static_cast<std::int64_t>(samples.size())}, torch::kFloat32);
  const auto target =
      torch::from_blob(out.data(),
                       {static_cast<std::int64_t>(kSpectrumBins),
                        static_cast<std::int64_t>(frames)},
                       torch::kFloat32);
  const auto complex = torch::stft(
      clip, kSpectrumWindow, kSpectrumStride, kSpectrumWindow,
      torch::hamming_window(kSpectrumWindow), /*center=*/true,
      /*pad_mode=*/"reflect", /*normalized=*/false, /*onesided=*/true,
      /*return_complex=*/true);
  auto values = complex.abs().log1p_();
  // So short a deviation is that of rounding.
  const auto deviation = values.std().clamp_min_(1e-6);
  values.sub_(values.mean()).div_(deviation);
  target.copy_(values);
}

void keep_torch_to_one_thread() { at::set_num_threads(1); }

}  // namespace sluice
