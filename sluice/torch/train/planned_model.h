#pragma once

#include <memory>

#include "sluice/config/config.h"
#include "sluice/cost/model.h"
#include "sluice/data/dataset.h"
#include "sluice/plan/plan.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/tensors.h"

namespace sluice {

// What a configuration names: the model, and how its gradients travel.
struct PlannedModel {
  std::shared_ptr<Model> module;
  NamedTensors parameters;  // of the model; share its memory
  NamedTensors buffers;
  std::vector<TensorInfo> tensors;    // the parameters
  std::vector<std::string> names;     // of the tensors
  std::vector<Treatment> treatments;  // of each
  Plan plan;
  // What the planner expects of it, for people; empty if it went by no costs.
  std::string forecast;
  // Of 4-dimensional parameters, and of images.
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

// What planners are told besides costs: who exchanges, and over what.
struct PlanSite {
  std::size_t ranks = 1;
  Network network;
  // Whether what is not computed has cores of its own to run on.
  bool spare_cores = true;
};

// Throws std::invalid_argument, or std::runtime_error for files.
PlannedModel make_planned_model(const TrainConfig& config, const Input& input,
                                const torch::Device& device = torch::kCPU,
                                const PlanSite& site = {});

}  // namespace sluice
