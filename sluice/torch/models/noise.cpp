#include "sluice/torch/models/noise.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "sluice/core/hash.h"

namespace sluice {

Noise::Noise() : generator_(at::make_generator<at::CPUGeneratorImpl>(seed_)) {}

void Noise::seed(std::uint64_t seed) {
  seed_ = seed;
  lent_ = 0;
  generator_.set_current_seed(seed);
}

torch::Tensor Noise::drop(const torch::Tensor& x, double share) {
  if (share == 0 || x.is_cpu()) return multiply(x, share, x.sizes());
  // In one kernel, where it takes three here.
  return lend(x.device(), [&] { return torch::dropout(x, share, true); });
}

torch::Tensor Noise::drop_channels(const torch::Tensor& x, double share) {
  return multiply(x, share, {x.size(0), x.size(1), 1, 1});
}

torch::Tensor Noise::lend(const torch::Device& device,
                          const std::function<torch::Tensor()>& make) {
  // Ranks that are threads share torch's generator: nobody may draw between
  // seeding and drawing.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::Generator own = at::globalContext().defaultGenerator(device);
  {
    const std::lock_guard own_lock(own.mutex());
    own.set_current_seed(mix64(seed_, lent_++));
  }
  return make();
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
