#include "sluice/torch/models/layers.h"

#include "sluice/core/error.h"

namespace sluice {

ConvImpl::ConvImpl(std::int64_t inputs, std::int64_t outputs, Sides kernel,
                   const Options& options)
    : options_(options) {
  weight = register_parameter(
      "weight", torch::empty({outputs, inputs, kernel.height, kernel.width}));
  if (options.bias) bias = register_parameter("bias", torch::empty({outputs}));
}

torch::Tensor ConvImpl::forward(const torch::Tensor& x) {
  const auto [down, across] = options_.stride;
  const auto [above, beside] = options_.padding;
  return torch::conv2d(x, weight, bias, {down, across}, {above, beside});
}

LinearImpl::LinearImpl(std::int64_t inputs, std::int64_t outputs,
                       bool with_bias) {
  weight = register_parameter("weight", torch::empty({outputs, inputs}));
  if (with_bias) bias = register_parameter("bias", torch::empty({outputs}));
}

torch::Tensor LinearImpl::forward(const torch::Tensor& x) {
  return torch::linear(x, weight, bias);
}

EmbeddingImpl::EmbeddingImpl(std::int64_t rows, std::int64_t width) {
  weight = register_parameter("weight", torch::empty({rows, width}));
}

torch::Tensor EmbeddingImpl::forward(const torch::Tensor& tokens) {
  return torch::embedding(weight, tokens);
}

LstmImpl::LstmImpl(std::int64_t inputs, std::int64_t width, std::int64_t layers)
    : width_(width) {
  const std::int64_t gates = 4 * width;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto add = [&](const char* name, torch::Tensor tensor) {
      return register_parameter(concat(name, "_l", layer), tensor);
    };
    const torch::Tensor from_input =
        add("weight_ih", torch::empty({gates, layer == 0 ? inputs : width}));
    const torch::Tensor from_hidden =
        add("weight_hh", torch::empty({gates, width}));
    tensors_.push_back({from_input, from_hidden,
                        add("bias_ih", torch::empty({gates})),
                        add("bias_hh", torch::empty({gates}))});
  }
}

torch::Tensor LstmImpl::forward(const torch::Tensor& x, Carried& carried,
                                std::size_t layer, bool batch_first) {
  if (!carried.hidden.defined()) {
    const std::int64_t batch = x.size(batch_first ? 0 : 1);
    carried.hidden = torch::zeros({1, batch, width_}, x.options());
    carried.cell = carried.hidden;
  }
  // Under autocast the last step may have left other types.
  auto [y, hidden, cell] = at::lstm(
      x, {carried.hidden.to(x.scalar_type()), carried.cell.to(x.scalar_type())},
      tensors_[layer],
      /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0.0, is_training(),
      /*bidirectional=*/false, batch_first);
  carried = {hidden, cell};
  return y;
}

void LstmImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Module::to(device, dtype, non_blocking);
  join_tensors();
}

void LstmImpl::to(torch::Dtype dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
  join_tensors();
}

void LstmImpl::to(torch::Device device, bool non_blocking) {
  Module::to(device, non_blocking);
  join_tensors();
}

// Layer by layer, as forward() calls cuDNN.
void LstmImpl::join_tensors() {
  constexpr std::int64_t kLstmMode = 2;  // of cudnnRNNMode_t
  const torch::NoGradGuard no_gradients;
  for (const std::vector<torch::Tensor>& layer : tensors_) {
    const torch::Tensor& from_input = layer.front();
    if (!from_input.is_cuda() || !torch::_use_cudnn_rnn_flatten_weight() ||
        !torch::cudnn_is_acceptable(from_input)) {
      return;
    }
    const torch::DeviceGuard there(from_input.device());
    torch::_cudnn_rnn_flatten_weight(
        layer, static_cast<std::int64_t>(layer.size()), from_input.size(1),
        kLstmMode, width_, /*proj_size=*/0, /*num_layers=*/1,
        /*batch_first=*/false, /*bidirectional=*/false);
  }
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

LayerNormImpl::LayerNormImpl(std::int64_t width, double epsilon)
    : epsilon_(epsilon) {
  weight = register_parameter("weight", torch::empty({width}));
  bias = register_parameter("bias", torch::empty({width}));
}

torch::Tensor LayerNormImpl::forward(const torch::Tensor& x) {
  return torch::layer_norm(x, {weight.size(0)}, weight, bias, epsilon_);
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
