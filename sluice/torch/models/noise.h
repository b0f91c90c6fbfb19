#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>

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

  // What `make` returns, whose operators draw from torch's own generator of
  // this device, as fused kernels do: they are handed numbers of this noise.
  // One at a time in a process, whatever its threads.
  torch::Tensor lend(const torch::Device& device,
                     const std::function<torch::Tensor()>& make);

 private:
  torch::Tensor multiply(const torch::Tensor& x, double share,
                         at::IntArrayRef shape);
  torch::Generator& generator(const torch::Device& device);

  std::uint64_t seed_ = 0;
  std::uint64_t lent_ = 0;  // times since it was seeded
  torch::Generator generator_;
};

}  // namespace sluice
