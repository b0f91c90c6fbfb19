#pragma once

#include <memory>

#include "sluice/run/planning.h"
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
  // All that were made so far, and maybe some that are to be repeated.
  Decisions decisions;
  Plan plan;  // the one of them that holds
  // What the planner expects of it, for people; empty if it went by no costs.
  std::string forecast;
  // Of 4-dimensional parameters, and of images.
  at::MemoryFormat format = at::MemoryFormat::Contiguous;

  PlannedTensors as_planned() const { return {tensors, treatments, names}; }
};

// Throws std::invalid_argument, or std::runtime_error for files.
PlannedModel make_planned_model(const TrainConfig& config,
                                const ModelInput& input,
                                const torch::Device& device = torch::kCPU,
                                const PlanSite& site = {});

}  // namespace sluice
