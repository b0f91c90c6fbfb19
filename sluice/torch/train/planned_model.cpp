#include "sluice/torch/train/planned_model.h"

#include <algorithm>
#include <sstream>

#include "sluice/torch/train/adapter.h"

namespace sluice {
namespace {

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

void use_channels_last(const NamedTensors& parameters) {
  for (const NamedTensor& p : parameters) {
    if (p.tensor.dim() != 4) continue;
    torch::Tensor tensor = p.tensor;
    tensor.set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

}  // namespace

PlannedModel make_planned_model(const TrainConfig& asked,
                                const ModelInput& input,
                                const torch::Device& device,
                                const PlanSite& site) {
  TrainConfig config = asked;
  choose_device(config);
  PlannedModel planned;
  planned.module =
      make_model(config.model, input, static_cast<std::uint64_t>(config.seed));
  planned.module->to(device);
  planned.parameters = parameters_of(*planned.module);
  const auto is_image = [](const NamedTensor& p) {
    return p.tensor.dim() == 4;
  };
  if (config.channels_last == "on" &&
      std::any_of(planned.parameters.begin(), planned.parameters.end(),
                  is_image)) {
    planned.format = at::MemoryFormat::ChannelsLast;
    use_channels_last(planned.parameters);
  }
  planned.buffers = buffers_of(*planned.module);
  planned.tensors = describe_tensors("train", planned.parameters);
  for (const TensorInfo& t : planned.tensors) planned.names.push_back(t.name);
  Exceptions exceptions;
  exceptions.dense = split_names(config.dense);
  exceptions.no_feedback = split_names(config.no_feedback);
  exceptions.dense_below = static_cast<std::size_t>(config.dense_below);
  exceptions.dense_rank = static_cast<std::size_t>(config.dense_rank);
  planned.treatments = exceptions.resolve(planned.tensors);
  planned.decisions =
      first_decisions(config, planned.as_planned(), site, planned.forecast);
  planned.plan = planned.decisions[0].plan;
  return planned;
}

}  // namespace sluice
