#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sluice/torch/models/model.h"
#include "sluice/torch/tensors.h"

namespace sluice::testing {

// A model and samples of its kind, drawn from a seed: a step of training for
// programs that are compared with the same network in Python (model_jobs.py).
class ModelJob {
 public:
  virtual ~ModelJob() = default;

  // Inputs and targets, by the names that model_jobs.py has for them; those
  // that are not whole numbers are float64.
  const NamedTensors& samples() const { return samples_; }
  Model& model() { return *model_; }

  // Model and samples.
  void convert(torch::Dtype type);
  // But for lengths, which models want on the host.
  void move_to(const torch::Device& device);

  virtual torch::Tensor scores() = 0;
  virtual torch::Tensor loss(const torch::Tensor& scores) = 0;

 protected:
  ModelJob(std::shared_ptr<Model> model, NamedTensors samples)
      : model_(std::move(model)), samples_(std::move(samples)) {}
  const torch::Tensor& sample(std::string_view name) const;

 private:
  std::shared_ptr<Model> model_;
  NamedTensors samples_;
};

// `numbers` are, for a `kind` of samples,
//   images    channels height width classes batch
//   tokens    vocabulary length batch
//   spectra   bins labels times batch
// Throws std::invalid_argument for others.
std::unique_ptr<ModelJob> make_job(const std::string& model,
                                   const std::string& kind,
                                   std::span<const std::int64_t> numbers);

}  // namespace sluice::testing
