#include "sluice/torch/models/convnets.h"

#include "sluice/core/error.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {

MnistNet::MnistNet(const Params& params, const ImageInput& input)
    : ImageModel(init_uniform), dropout_(params.dropout) {
  require(input.height >= 16 && input.width >= 16,
          "[model 'mnistnet'] images must be at least 16 x 16, got ",
          input.height, " x ", input.width);
  const auto shrunk = [](std::int64_t side) {
    return ((side - 4) / 2 - 4) / 2;
  };
  conv1_ = register_module("conv1", Conv(input.channels, 10, 5));
  conv2_ = register_module("conv2", Conv(10, 20, 5));
  fc1_ = register_module(
      "fc1", Linear(20 * shrunk(input.height) * shrunk(input.width), 50));
  fc2_ = register_module("fc2", Linear(50, input.classes));
}

torch::Tensor MnistNet::forward(const torch::Tensor& images) {
  const double share = is_training() ? dropout_ : 0;
  torch::Tensor x =
      torch::relu(torch::max_pool2d(conv1_->forward(images), {2, 2}));
  x = noise()->drop_channels(conv2_->forward(x), share);
  x = torch::relu(torch::max_pool2d(x, {2, 2}));
  x = noise()->drop(torch::relu(fc1_->forward(x.flatten(1))), share);
  return fc2_->forward(x);
}

Lenet::Lenet(const Params&, const ImageInput& input)
    : ImageModel(init_uniform), padding_(padding_to_32("lenet", input)) {
  conv1_ = register_module("conv1", Conv(input.channels, 6, 5));
  conv2_ = register_module("conv2", Conv(6, 16, 5));
  fc1_ = register_module("fc1", Linear(16 * 5 * 5, 120));
  fc2_ = register_module("fc2", Linear(120, 84));
  fc3_ = register_module("fc3", Linear(84, input.classes));
}

torch::Tensor Lenet::forward(const torch::Tensor& images) {
  torch::Tensor x = pad(images, padding_);
  x = torch::max_pool2d(torch::relu(conv1_->forward(x)), {2, 2});
  x = torch::max_pool2d(torch::relu(conv2_->forward(x)), {2, 2});
  x = torch::relu(fc1_->forward(x.flatten(1)));
  return fc3_->forward(torch::relu(fc2_->forward(x)));
}

}  // namespace sluice
