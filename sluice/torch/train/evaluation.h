#pragma once

#include "sluice/comm/communicator.h"
#include "sluice/run/metrics.h"
#include "sluice/torch/task/task.h"

namespace sluice {

// Loss and scores of a task, each rank on its share; the same numbers on all
// ranks. The loss is the mean over samples. The model, which is on `device`, is
// in training mode afterwards.
Evaluation evaluate(Communicator& comm, std::uint64_t step, Model& model,
                    const torch::Device& device, const Task& task,
                    std::uint64_t batch, const LoaderOptions& how = {});

// Keeps what Autocast casts of weights, for as long as it lives: no longer than
// the weights stay as they are.
class AutocastCache {
 public:
  AutocastCache();
  ~AutocastCache();
  AutocastCache(const AutocastCache&) = delete;
  AutocastCache& operator=(const AutocastCache&) = delete;
};

// bf16 where torch's autocast knows how to, for as long as it lives: forward
// only, backward follows by itself.
class Autocast {
 public:
  Autocast(bool on, torch::DeviceType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastCache cache_;
  bool on_;
  torch::DeviceType type_;
};

}  // namespace sluice
