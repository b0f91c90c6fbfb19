#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "sluice/torch/models/noise.h"

namespace sluice {

// Layers that compute what those of torch::nn do, with tensors of the same
// names. Theirs draw their weights when they are made, from torch's own
// generator; these leave memory as it comes until init.h fills it, so that a
// network which is only asked for its tensors costs neither time nor memory,
// and one that is trained is drawn once.

class ConvImpl final : public torch::nn::Module {
 public:
  struct Options {
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    bool bias = true;
  };

  ConvImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel)
      : ConvImpl(inputs, outputs, kernel, Options{}) {}
  ConvImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
           const Options& options);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias;  // bias: undefined if there is none

 private:
  Options options_;
};
TORCH_MODULE(Conv);

class LinearImpl final : public torch::nn::Module {
 public:
  LinearImpl(std::int64_t inputs, std::int64_t outputs);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias;
};
TORCH_MODULE(Linear);

// Over the channels of images: epsilon 1e-5, momentum 0.1. Training throws
// std::invalid_argument unless there are two values per channel.
class BatchNormImpl final : public torch::nn::Module {
 public:
  explicit BatchNormImpl(std::int64_t channels);
  torch::Tensor forward(const torch::Tensor& x);
  // Scale 1, shift 0, nothing seen yet.
  void reset();

  torch::Tensor weight, bias;
  torch::Tensor running_mean, running_var, num_batches_tracked;
};
TORCH_MODULE(BatchNorm);

// Over the last dimension: epsilon 1e-6, as in vision transformers.
class LayerNormImpl final : public torch::nn::Module {
 public:
  explicit LayerNormImpl(std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x);
  // Scale 1, shift 0.
  void reset();

  torch::Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

// Zeroes a share of the elements while training, and scales the others so that
// the mean stays.
class DropoutImpl final : public torch::nn::Module {
 public:
  DropoutImpl(double share, std::shared_ptr<Noise> noise);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  double share_;
  std::shared_ptr<Noise> noise_;
};
TORCH_MODULE(Dropout);

}  // namespace sluice
