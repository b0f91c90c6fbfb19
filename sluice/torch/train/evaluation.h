#pragma once

#include "sluice/comm/communicator.h"
#include "sluice/run/metrics.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// Loss and accuracy over a data set, each rank on its share; the same numbers
// on all ranks. The model, which is on `device`, is in training mode
// afterwards.
Evaluation evaluate(Communicator& comm, std::uint64_t step, Model& model,
                    const torch::Device& device, const Dataset& dataset,
                    std::uint64_t batch, const LoaderOptions& how = {});

// How many rows of `scores` are highest at their label.
double count_correct(const torch::Tensor& scores, const torch::Tensor& labels);

// bf16 where torch's autocast knows how to, for as long as it lives.
class Autocast {
 public:
  Autocast(bool on, torch::DeviceType type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  torch::DeviceType type_;
};

}  // namespace sluice
