#include "sluice/torch/models/resnet.h"

#include "sluice/core/error.h"

namespace sluice {
namespace {

Conv conv3x3(std::int64_t inputs, std::int64_t outputs, std::int64_t stride) {
  return Conv(inputs, outputs, 3,
              ConvImpl::Options{.stride = stride, .padding = 1, .bias = false});
}

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(std::int64_t inputs, std::int64_t outputs)
      : new_channels_(outputs - inputs) {
    const std::int64_t stride = new_channels_ == 0 ? 1 : 2;
    conv1_ = register_module("conv1", conv3x3(inputs, outputs, stride));
    bn1_ = register_module("bn1", BatchNorm(outputs));
    conv2_ = register_module("conv2", conv3x3(outputs, outputs, 1));
    bn2_ = register_module("bn2", BatchNorm(outputs));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(bn1_->forward(conv1_->forward(x)));
    y = bn2_->forward(conv2_->forward(y));
    return torch::relu(y + shortcut(x));
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (new_channels_ == 0) return x;
    const torch::Tensor half = x.slice(2, 0, x.size(2), 2)  //
                                   .slice(3, 0, x.size(3), 2);
    // Half of the new channels before the old ones, half after them.
    return torch::constant_pad_nd(
        half, {0, 0, 0, 0, new_channels_ / 2, new_channels_ / 2}, 0);
  }

  std::int64_t new_channels_;
  Conv conv1_{nullptr}, conv2_{nullptr};
  BatchNorm bn1_{nullptr}, bn2_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace

Resnet::Resnet(const Variant& variant, const Params&, const ImageInput& input)
    : ImageModel(init_he) {
  require(input.height >= 4 && input.width >= 4, "[model '", variant.name,
          "'] images must be at least 4 x 4, got ", input.height, " x ",
          input.width);
  conv1_ = register_module("conv1", conv3x3(input.channels, 16, 1));
  bn1_ = register_module("bn1", BatchNorm(16));
  torch::nn::Sequential stages;
  std::int64_t channels = 16;
  for (const std::int64_t outputs : {16, 32, 64}) {
    for (std::int64_t i = 0; i < variant.blocks; ++i) {
      stages->push_back(Block(channels, outputs));
      channels = outputs;
    }
  }
  stages_ = register_module("blocks", stages);
  fc_ = register_module("fc", Linear(64, input.classes));
}

torch::Tensor Resnet::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::relu(bn1_->forward(conv1_->forward(images)));
  x = stages_->forward(x);
  return fc_->forward(x.mean({2, 3}));
}

}  // namespace sluice
