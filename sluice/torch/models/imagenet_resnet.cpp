#include "sluice/torch/models/imagenet_resnet.h"

#include "sluice/core/error.h"

namespace sluice {
namespace {

Conv conv(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
          std::int64_t stride) {
  return Conv(inputs, outputs, kernel,
              ConvImpl::Options{
                  .stride = stride, .padding = kernel / 2, .bias = false});
}

// Convolutions and normalisations around which x is added.
class ResidualImpl final : public torch::nn::Module {
 public:
  ResidualImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t stride)
      : inputs_(inputs), outputs_(outputs), stride_(stride) {}

  void add_layer(std::int64_t outputs, std::int64_t kernel,
                 std::int64_t stride) {
    const std::size_t number = convs_.size() + 1;
    const std::int64_t inputs =
        convs_.empty() ? inputs_ : convs_.back()->weight.size(0);
    convs_.push_back(register_module(concat("conv", number),
                                     conv(inputs, outputs, kernel, stride)));
    norms_.push_back(register_module(concat("bn", number), BatchNorm(outputs)));
  }

  // After the layers, as torchvision orders its tensors.
  void add_shortcut() {
    if (stride_ == 1 && inputs_ == outputs_) return;
    shortcut_ = register_module(
        "downsample", torch::nn::Sequential(conv(inputs_, outputs_, 1, stride_),
                                            BatchNorm(outputs_)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = norms_[0]->forward(convs_[0]->forward(x));
    for (std::size_t i = 1; i < convs_.size(); ++i) {
      y = norms_[i]->forward(convs_[i]->forward(y.relu_()));
    }
    y += shortcut_.is_empty() ? x : shortcut_->forward(x);
    return y.relu_();
  }

 private:
  std::int64_t inputs_, outputs_, stride_;
  std::vector<Conv> convs_;
  std::vector<BatchNorm> norms_;
  torch::nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(Residual);

Residual basic(std::int64_t inputs, std::int64_t width, std::int64_t stride) {
  Residual block(inputs, width, stride);
  block->add_layer(width, 3, stride);
  block->add_layer(width, 3, 1);
  block->add_shortcut();
  return block;
}

Residual bottleneck(std::int64_t inputs, std::int64_t width,
                    std::int64_t stride) {
  Residual block(inputs, 4 * width, stride);
  block->add_layer(width, 1, 1);
  block->add_layer(width, 3, stride);
  block->add_layer(4 * width, 1, 1);
  block->add_shortcut();
  return block;
}

}  // namespace

ImagenetResnet::ImagenetResnet(const Variant& variant, const Params& params,
                               const ImageInput& input)
    : ImageModel(init_resnet), imagenet_(is_imagenet_form(params.form, input)) {
  conv1_ = register_module("conv1", imagenet_ ? conv(input.channels, 64, 7, 2)
                                              : conv(input.channels, 64, 3, 1));
  bn1_ = register_module("bn1", BatchNorm(64));
  std::int64_t channels = 64;
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage, width *= 2) {
    torch::nn::Sequential all;
    for (int i = 0; i < variant.blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      all->push_back(variant.bottlenecks ? bottleneck(channels, width, stride)
                                         : basic(channels, width, stride));
      channels = variant.bottlenecks ? 4 * width : width;
    }
    stages_[stage] = register_module(concat("layer", stage + 1), all);
  }
  fc_ = register_module("fc", Linear(channels, input.classes));
}

torch::Tensor ImagenetResnet::forward(const torch::Tensor& images) {
  torch::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  if (imagenet_) x = torch::max_pool2d(x, 3, 2, 1);
  for (torch::nn::Sequential& stage : stages_) x = stage->forward(x);
  return fc_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace sluice
