#include "sluice/torch/train/model_file.h"

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

// What a broken image does may change: it is how one gets on after one.
Spec without_policy(const std::string& dataset) {
  Spec spec = parse_spec(dataset);
  std::erase_if(spec.params,
                [](const auto& param) { return param.first == "broken"; });
  return spec;
}

}  // namespace

std::string model_file_path(const std::string& folder) {
  return folder + "/model.ckpt";
}

std::uint64_t write_model_file(const std::string& path, const ModelFile& file) {
  TensorStore store;
  store.add("parameter/", file.parameters);
  store.add("buffer/", file.buffers);
  store.add("optimizer/", file.optimizer);
  return Checkpoint::write(path, to_json(file), store.stored());
}

ModelFile read_model_file(const std::string& path, const Manifest& manifest) {
  const Checkpoint stored = Checkpoint::read(path);
  manifest.check(path, stored);
  ModelFile file{run_state_of(stored, path), {}, {}, {}};
  file.parameters = tensors_of(stored, "parameter/");
  file.buffers = tensors_of(stored, "buffer/");
  file.optimizer = tensors_of(stored, "optimizer/");
  return file;
}

void check_compatible(const ModelFile& file, const TrainConfig& config) {
  const auto same = [](std::string_view what, const auto& saved,
                       const auto& given) {
    require(saved == given, "[resume] --", what,
            " must be that of the checkpoint, '", saved, "', got '", given,
            "'; start a new run for another one");
  };
  same("model", file.config.model, config.model);
  const Spec saved = without_policy(file.config.dataset);
  const Spec given = without_policy(config.dataset);
  if (saved.name != given.name || saved.params != given.params) {
    same("dataset", file.config.dataset, config.dataset);
  }
  same("optimizer", file.config.optimizer, config.optimizer);
  same("feedback", file.config.feedback, config.feedback);
  same("seed", file.config.seed, config.seed);
}

}  // namespace sluice
