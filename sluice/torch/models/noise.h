#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace sluice {

// The random numbers that a model draws while training. They follow from the
// seed and the order of calls alone; where x is on an accelerator they are
// drawn there, and are others than those of the CPU.
class Noise {
 public:
  Noise();

  void seed(std::uint64_t seed);

  // Zeroes elements of x, each with probability `share` in [0, 1), and divides
  // the others by 1 - share.
  torch::Tensor drop(const torch::Tensor& x, double share);
  // The same for whole channels of images, batch x channels x height x width.
  torch::Tensor drop_channels(const torch::Tensor& x, double share);

 private:
  torch::Tensor multiply(const torch::Tensor& x, double share,
                         at::IntArrayRef shape);
  torch::Generator& generator(const torch::Device& device);

  std::uint64_t seed_ = 0;
  torch::Generator generator_;
};

}  // namespace sluice
