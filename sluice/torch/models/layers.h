#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/torch/models/noise.h"

namespace sluice {

// Layers that compute what those of torch::nn do, with tensors of the same
// names. Theirs draw their weights when they are made, from torch's own
// generator; these leave memory as it comes until init.h fills it, so that a
// network which is only asked for its tensors costs neither time nor memory,
// and one that is trained is drawn once.

// Two sides of a rectangle; from one number, a square.
struct Sides {
  std::int64_t height, width;
  constexpr Sides(std::int64_t side) : height(side), width(side) {}
  constexpr Sides(std::int64_t high, std::int64_t wide)
      : height(high), width(wide) {}
};

class ConvImpl final : public torch::nn::Module {
 public:
  struct Options {
    Sides stride = 1;
    Sides padding = 0;
    bool bias = true;
  };

  ConvImpl(std::int64_t inputs, std::int64_t outputs, Sides kernel)
      : ConvImpl(inputs, outputs, kernel, Options{}) {}
  ConvImpl(std::int64_t inputs, std::int64_t outputs, Sides kernel,
           const Options& options);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias;  // bias: undefined if there is none

 private:
  Options options_;
};
TORCH_MODULE(Conv);

class LinearImpl final : public torch::nn::Module {
 public:
  LinearImpl(std::int64_t inputs, std::int64_t outputs, bool with_bias = true);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias;  // bias: undefined if there is none
};
TORCH_MODULE(Linear);

// A row of `weight` for each token, which is a number below `rows`.
class EmbeddingImpl final : public torch::nn::Module {
 public:
  EmbeddingImpl(std::int64_t rows, std::int64_t width);
  torch::Tensor forward(const torch::Tensor& tokens);

  torch::Tensor weight;
};
TORCH_MODULE(Embedding);

// Long short-term memory, one way, without dropout. A layer's tensors are named
// as torch.nn.LSTM names them (`weight_ih_l0`). Whenever they are moved to a
// GPU, those of a layer come to lie in one piece of memory, as cuDNN wants
// them: it would copy them there in every call, and say so. They stay separate
// tensors.
class LstmImpl final : public torch::nn::Module {
 public:
  // What a layer carries from one time to the next: 1 x batch x width each.
  struct Carried {
    torch::Tensor hidden, cell;
  };

  LstmImpl(std::int64_t inputs, std::int64_t width, std::int64_t layers = 1);

  // What `layer` makes of x, batch x time x inputs or, unless `batch_first`,
  // time x batch x inputs. Goes on from `carried`, or from zeros if it is
  // undefined, and leaves there the last of it.
  torch::Tensor forward(const torch::Tensor& x, Carried& carried,
                        std::size_t layer, bool batch_first);

  void to(torch::Device device, torch::Dtype dtype,
          bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  std::int64_t width() const { return width_; }
  std::size_t layers() const { return tensors_.size(); }

 private:
  void join_tensors();

  std::int64_t width_;
  std::vector<std::vector<torch::Tensor>> tensors_;  // by layer
};
TORCH_MODULE(Lstm);

// Over the channels of images, batch x channels x height x width, or of rows,
// batch x channels: epsilon 1e-5, momentum 0.1. Training throws
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

// Over the last dimension; the epsilon is that of vision transformers unless
// another is given.
class LayerNormImpl final : public torch::nn::Module {
 public:
  explicit LayerNormImpl(std::int64_t width, double epsilon = 1e-6);
  torch::Tensor forward(const torch::Tensor& x);
  // Scale 1, shift 0.
  void reset();

  torch::Tensor weight, bias;

 private:
  double epsilon_;
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
