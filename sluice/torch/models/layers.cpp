#include "sluice/torch/models/layers.h"

#include "sluice/core/error.h"

namespace sluice {

ConvImpl::ConvImpl(std::int64_t inputs, std::int64_t outputs,
                   std::int64_t kernel, const Options& options)
    : options_(options) {
  weight = register_parameter("weight",
                              torch::empty({outputs, inputs, kernel, kernel}));
  if (options.bias) bias = register_parameter("bias", torch::empty({outputs}));
}

torch::Tensor ConvImpl::forward(const torch::Tensor& x) {
  return torch::conv2d(x, weight, bias, options_.stride, options_.padding);
}

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs) {
  weight = register_parameter("weight", torch::empty({outputs, inputs}));
  bias = register_parameter("bias", torch::empty({outputs}));
}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) {
  return torch::linear(x, weight, bias);
}

BatchNormImpl::BatchNormImpl(std::int64_t channels) {
  weight = register_parameter("weight", torch::empty({channels}));
  bias = register_parameter("bias", torch::empty({channels}));
  running_mean = register_buffer("running_mean", torch::empty({channels}));
  running_var = register_buffer("running_var", torch::empty({channels}));
  num_batches_tracked =
      register_buffer("num_batches_tracked", torch::empty({}, torch::kLong));
}

torch::Tensor BatchNormImpl::forward(const torch::Tensor& x) {
  if (is_training()) {
    // The variance of one value is 0 / 0.
    require(x.numel() > x.size(1),
            "[batch norm] training needs two values per channel at least, got ",
            x.numel() / x.size(1), "; take a larger batch or larger images");
    num_batches_tracked += 1;
  }
  return torch::batch_norm(x, weight, bias, running_mean, running_var,
                           is_training(), /*momentum=*/0.1, /*eps=*/1e-5,
                           at::globalContext().userEnabledCuDNN());
}

void BatchNormImpl::reset() {
  weight.fill_(1);
  bias.zero_();
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

LayerNormImpl::LayerNormImpl(std::int64_t width) {
  weight = register_parameter("weight", torch::empty({width}));
  bias = register_parameter("bias", torch::empty({width}));
}

torch::Tensor LayerNormImpl::forward(const torch::Tensor& x) {
  return torch::layer_norm(x, {weight.size(0)}, weight, bias, /*eps=*/1e-6);
}

void LayerNormImpl::reset() {
  weight.fill_(1);
  bias.zero_();
}

DropoutImpl::DropoutImpl(double share, std::shared_ptr<Noise> noise)
    : share_(share), noise_(std::move(noise)) {}

torch::Tensor DropoutImpl::forward(const torch::Tensor& x) {
  return is_training() ? noise_->drop(x, share_) : x;
}

}  // namespace sluice
