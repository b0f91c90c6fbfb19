#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "sluice/torch/models/noise.h"

namespace sluice {

// Attention of several heads (Vaswani et al. 2017), without the linear layers
// before and after it. It has no parameters, so the blocks of a model share
// one.
//
// Torch's fused kernels compute it, with dropout on accelerators alone, where
// the model's noise lends them its numbers. The CPU has no such kernel with
// dropout: there it is computed step by step while training, with memory for
// time x time probabilities per head.
class HeadsImpl final : public torch::nn::Module {
 public:
  struct Options {
    std::int64_t heads = 1;
    bool causal = false;  // tokens do not see later ones
    double dropout = 0;   // of the probabilities
  };

  HeadsImpl(const Options& options, std::shared_ptr<Noise> noise);

  // What each token sees. All are batch x time x width; heads must divide the
  // width.
  torch::Tensor forward(const torch::Tensor& queries, const torch::Tensor& keys,
                        const torch::Tensor& values) {
    return forward(queries, keys, values, {});
  }
  // Of the keys only those that `counts` (bool, batch x time) has, which must
  // be one per sequence at least. Not with `causal`.
  torch::Tensor forward(const torch::Tensor& queries, const torch::Tensor& keys,
                        const torch::Tensor& values,
                        const torch::Tensor& counts);

 private:
  torch::Tensor mix_with_noise(const torch::Tensor& queries,
                               const torch::Tensor& keys,
                               const torch::Tensor& values,
                               const torch::Tensor& mask);

  Options options_;
  std::shared_ptr<Noise> noise_;
};
TORCH_MODULE(Heads);

// Throws std::invalid_argument, naming the model, unless heads divide the
// width.
void check_heads(std::string_view model, std::int64_t width,
                 std::int64_t heads);

// Throws std::invalid_argument, naming the model and its parameter, if
// sequences of `length` are longer than its `limit`.
void check_length(std::string_view model, std::string_view parameter,
                  std::int64_t length, std::int64_t limit);

}  // namespace sluice
