#pragma once

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <optional>
#include <vector>

namespace sluice {

// Numbers that a device computes, on their way to the host, which goes on
// without them: reading one at once (`item()`) would hold up the device, too,
// until the host has found it more to do.
class LateNumbers {
 public:
  // A list of numbers; they are copied once what is enqueued so far has made
  // them.
  explicit LateNumbers(const torch::Tensor& numbers);

  // Waits until they are there.
  std::vector<double> get() const;

 private:
  torch::Tensor host_;
  std::optional<c10::Event> there_;  // none: they are
};

}  // namespace sluice
