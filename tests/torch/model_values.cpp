#include <ATen/CPUGeneratorImpl.h>

#include <exception>
#include <iostream>

#include "sluice/torch/models/model.h"
#include "sluice/torch/tensors.h"
#include "tests/torch/model_job.h"

// Writes what model_values_test.py compares with the same network in Python:
//
//   model_values MODEL KIND NUMBERS... FILE
//
// (see make_job) a checkpoint with weights and samples, and the logits, loss,
// gradients and buffers that come of them in one step in float64, and the
// logits of an evaluation after it. Weights and gradients are kept as float32.

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

void write(testing::ModelJob& job, const std::string& path) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{11});
  Model& model = job.model();
  const NamedTensors parameters = parameters_of(model);
  stir(parameters, generator);
  TensorStore store;
  store.add("parameter/", copies(parameters));
  store.add("buffer/", copies(buffers_of(model)));

  job.convert(torch::kDouble);
  const torch::Tensor logits = job.scores();
  const torch::Tensor loss = job.loss(logits);
  loss.backward();
  store.add("gradient/", gradients_of(parameters));
  store.add("after/", copies(buffers_of(model)));
  model.eval();
  store.add("sample/", job.samples());
  store.add("", {{"logits", logits.detach().contiguous()},
                 {"loss", loss.detach()},
                 {"evaluated", job.scores().detach().contiguous()}});
  Checkpoint::write(path, "{}", store.stored());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::cerr << "usage: model_values MODEL KIND NUMBERS... FILE\n";
    return 2;
  }
  torch::set_num_threads(1);
  std::vector<std::int64_t> numbers;
  for (int i = 3; i + 1 < argc; ++i) numbers.push_back(std::stoll(argv[i]));
  write(*testing::make_job(argv[1], argv[2], numbers), argv[argc - 1]);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
