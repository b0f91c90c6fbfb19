#include "sluice/torch/train/weights_import.h"

#include "sluice/core/ensure.h"
#include "sluice/weights/import.h"

namespace sluice {

std::string weight_kind(std::string_view spec) {
  const std::string name = parse_spec(spec).name;
  for (const char* kind : {"bert", "gpt2", "vit"}) {
    if (name.starts_with(kind)) return kind;
  }
  return "torchvision";
}

NamedTensors weights_of(const Model& model) {
  NamedTensors all = parameters_of(model);
  for (const NamedTensor& b : buffers_of(model)) {
    if (b.tensor.is_floating_point()) all.push_back(b);
  }
  return all;
}

namespace {

// What shapes do not tell: with other heads or another epsilon, the same
// weights are another model.
void check_config(const Model& model, const Weights& weights) {
  const Architecture own = model.architecture();
  if (!weights.config || own.type.empty()) return;
  ModelConfig config;
  config.model_type = own.type;
  config.heads = own.heads;
  config.norm_epsilon = own.epsilon;
  std::string found;
  for (const std::string& line : disagreements(*weights.config, config)) {
    found += (found.empty() ? "" : "; ") + line;
  }
  ensure(found.empty(), "[weights] '", weights.path,
         "' must be of the same model, but its config.json says: ", found,
         "; give --model the same numbers, as in vit-base:eps=1e-12");
}

}  // namespace

std::string import_into(Model& model, std::string_view spec,
                        const std::string& path) {
  const torch::NoGradGuard no_gradients;
  const NamedTensors tensors = weights_of(model);
  std::vector<TensorSpec> specs;
  for (const NamedTensor& t : tensors) {
    specs.push_back({t.name, t.tensor.sizes().vec()});
  }
  const Weights weights = open_weights(path);
  check_config(model, weights);
  const ImportPlan plan = plan_import(weight_kind(spec), specs, weights);
  plan.report.require_body();
  for (const Assignment& a : plan.assignments) {
    torch::Tensor values = torch::empty(a.dims);
    materialize(a, {values.data_ptr<float>(),
                    static_cast<std::size_t>(values.numel())});
    find_tensor(tensors, a.name).copy_(values);
  }
  return plan.report.text();
}

}  // namespace sluice
