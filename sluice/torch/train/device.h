#pragma once

#include <torch/torch.h>

#include <functional>

#include "sluice/config/config.h"

// Where and how torch computes.

namespace sluice {

// The configuration's device for the n-th worker of a machine: workers share
// GPUs in turn, unless one is named by its number. Throws std::runtime_error if
// it is not there.
torch::Device device_of(const TrainConfig& config, std::size_t local_rank);

// Tells torch how to compute there, for the whole process, and that this thread
// does.
void set_up_device(const TrainConfig& config, const torch::Device& device,
                   bool shapes_vary = false);

// For people, empty if there is nothing to say.
std::string describe_device(const TrainConfig& config,
                            const torch::Device& device, bool through_host);

// Runs `work`; where a device has no memory left for it, throws
// std::runtime_error with what takes less.
void with_memory(const torch::Device& device,
                 const std::function<void()>& work);

}  // namespace sluice
