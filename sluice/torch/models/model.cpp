#include "sluice/torch/models/model.h"

#include <ATen/CPUGeneratorImpl.h>

namespace sluice {

void Model::initialise(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  draw_parameters(generator);
}

}  // namespace sluice
