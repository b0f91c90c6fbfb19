#include "sluice/torch/models/noise.h"

#include <ATen/CPUGeneratorImpl.h>

namespace sluice {

Noise::Noise() : generator_(at::make_generator<at::CPUGeneratorImpl>(seed_)) {}

void Noise::seed(std::uint64_t seed) {
  seed_ = seed;
  generator_.set_current_seed(seed);
}

torch::Tensor Noise::drop(const torch::Tensor& x, double share) {
  return multiply(x, share, x.sizes());
}

torch::Tensor Noise::drop_channels(const torch::Tensor& x, double share) {
  return multiply(x, share, {x.size(0), x.size(1), 1, 1});
}

torch::Tensor Noise::multiply(const torch::Tensor& x, double share,
                              at::IntArrayRef shape) {
  if (share == 0) return x;
  const double kept = 1 - share;
  return x * torch::empty(shape, x.options().requires_grad(false))
                 .bernoulli_(kept, generator(x.device()))
                 .div_(kept);
}

torch::Generator& Noise::generator(const torch::Device& device) {
  if (generator_.device() == device) return generator_;
  // A copy of the device's own generator: the only way to make one of its kind
  // without the headers of the device.
  generator_ = device.is_cpu()
                   ? at::make_generator<at::CPUGeneratorImpl>(seed_)
                   : at::globalContext().defaultGenerator(device).clone();
  generator_.set_current_seed(seed_);
  return generator_;
}

}  // namespace sluice
