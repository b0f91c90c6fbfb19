#include "sluice/torch/train/late_numbers.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice {

LateNumbers::LateNumbers(const torch::Tensor& numbers)
    : host_(torch::empty(numbers.sizes(),
                         torch::TensorOptions()
                             .dtype(torch::kFloat64)
                             .pinned_memory(!numbers.is_cpu()))) {
  const torch::NoGradGuard no_gradients;
  // On the device first: a copy to another type waits.
  host_.copy_(numbers.to(torch::kFloat64), /*non_blocking=*/true);
  if (numbers.is_cpu()) return;
  const c10::Device device = numbers.device();
  there_.emplace(device.type());
  there_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::vector<double> LateNumbers::get() const {
  if (there_) there_->synchronize();
  const auto* first = host_.const_data_ptr<double>();
  return {first, first + host_.numel()};
}

}  // namespace sluice
