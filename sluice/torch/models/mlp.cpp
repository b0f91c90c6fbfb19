#include "sluice/torch/models/mlp.h"

#include "sluice/core/error.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {

DenseModel::DenseModel(const std::vector<std::int64_t>& widths,
                       const ImageInput& input)
    : ImageModel(init_uniform) {
  std::int64_t inputs = input.pixels();
  const auto add = [&](std::int64_t outputs) {
    layers_.push_back(register_module(concat("fc", layers_.size() + 1),
                                      Linear(inputs, outputs)));
    inputs = outputs;
  };
  for (const std::int64_t width : widths) add(width);
  add(input.classes);
}

torch::Tensor DenseModel::forward(const torch::Tensor& images) {
  torch::Tensor x = images.flatten(1);
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    x = torch::relu(layers_[i]->forward(x));
  }
  return layers_.back()->forward(x);
}

Mlp::Mlp(const Params& params, const ImageInput& input)
    : DenseModel(parse_widths(kName, params.widths), input) {}

}  // namespace sluice
