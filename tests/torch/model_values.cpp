#include <ATen/CPUGeneratorImpl.h>

#include <exception>
#include <iostream>

#include "sluice/torch/models/model.h"
#include "sluice/torch/tensors.h"

// Writes what model_values_test.py compares with the same network in Python:
//
//   model_values MODEL CHANNELS HEIGHT WIDTH CLASSES BATCH FILE
//
// a checkpoint with weights, images and labels, and the logits, loss, gradients
// and buffers that come of them in one step in float64, and the logits of an
// evaluation after it. Weights and gradients are kept as float32.

namespace {

using namespace sluice;

NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    all.push_back({name, tensor.detach().clone()});
  }
  return all;
}

// Biases and the like begin at 0 or 1, where mistakes would not show.
void stir(const NamedTensors& parameters, torch::Generator& generator) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dim() > 1) continue;
    tensor.add_(torch::empty_like(tensor).normal_(0, 0.1, generator));
  }
}

NamedTensors gradients_of(const NamedTensors& parameters) {
  NamedTensors all;
  for (const auto& [name, tensor] : parameters) {
    all.push_back({name, tensor.grad().to(torch::kFloat)});
  }
  return all;
}

void write(const std::string& text, const ImageInput& input, std::int64_t batch,
           const std::string& path) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{11});
  const auto model = make_model(text, input, 7);
  const NamedTensors parameters = parameters_of(*model);
  stir(parameters, generator);
  TensorStore store;
  store.add("parameter/", copies(parameters));
  store.add("buffer/", copies(buffers_of(*model)));

  const torch::Tensor images =
      torch::empty({batch, input.channels, input.height, input.width},
                   torch::kDouble)
          .normal_(0, 1, generator);
  const torch::Tensor labels = torch::arange(batch) % input.classes;
  model->to(torch::kDouble);
  const torch::Tensor logits = model->forward(images);
  const torch::Tensor loss = torch::cross_entropy_loss(logits, labels);
  loss.backward();
  store.add("gradient/", gradients_of(parameters));
  store.add("after/", copies(buffers_of(*model)));
  model->eval();
  store.add("", {{"images", images},
                 {"labels", labels},
                 {"logits", logits.detach()},
                 {"loss", loss.detach()},
                 {"evaluated", model->forward(images).detach()}});
  Checkpoint::write(path, "{}", store.stored());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 8) {
    std::cerr << "usage: model_values MODEL CHANNELS HEIGHT WIDTH CLASSES "
                 "BATCH FILE\n";
    return 2;
  }
  torch::set_num_threads(1);
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  write(argv[1], {number(2), number(3), number(4), number(5)}, number(6),
        argv[7]);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
