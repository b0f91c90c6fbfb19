#include "sluice/torch/train/trained_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sluice/config/recipe.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/torch/task/task.h"
#include "sluice/torch/train/device.h"
#include "sluice/torch/train/model_file.h"
#include "sluice/torch/train/weights_import.h"
#include "sluice/weights/export.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A model with the weights of a run or a file, and what it is for.
struct TrainedModel {
  TrainConfig config;
  std::unique_ptr<Task> task;
  std::shared_ptr<Model> module;
  std::string source;
  std::string says;
};

ModelConfig config_of(const TrainedModel& trained) {
  const Architecture a = trained.module->architecture();
  ModelConfig config;
  config.model_type = a.type;
  const auto set = [](std::optional<std::int64_t>& to, std::int64_t value) {
    if (value > 0) to = value;
  };
  set(config.width, a.width);
  set(config.layers, a.layers);
  set(config.heads, a.heads);
  set(config.inner_width, a.inner_width);
  set(config.vocabulary, a.vocabulary);
  set(config.positions, a.positions);
  set(config.image_size, a.image_size);
  set(config.patch_size, a.patch_size);
  if (a.epsilon > 0) config.norm_epsilon = a.epsilon;
  if (a.type == "vit") config.labels = trained.task->labels();
  return config;
}

// What is known of models that nobody else has a form for.
std::string own_config(const TrainedModel& trained) {
  const Json json = {{"model", trained.config.model},
                     {"dataset", trained.config.dataset},
                     {"input", describe(trained.task->input())}};
  return json.dump(2) + "\n";
}

bool is_checkpoint(const std::string& path) {
  return !CheckpointStore::find_all(path).folders.empty();
}

void change(TrainConfig& config,
            const std::vector<std::pair<std::string, std::string>>& changes) {
  const ParamList fields = params_of(config);
  for (const auto& [key, value] : changes) {
    set_param(fields, "configuration", key, value);
  }
}

TrainedModel open_trained(const TrainedSource& what) {
  const auto& [path, changes] = what;
  TrainedModel trained;
  std::optional<ModelFile> file;
  if (is_checkpoint(path)) {
    trained.source = CheckpointStore::find_all(path).folders.front();
    file = read_model_file(model_file_path(trained.source),
                           Manifest::read(trained.source));
    trained.config = file->config;
    trained.config.device = "cpu";
    trained.says = concat("weights of step ", file->progress.done, " from ",
                          trained.source);
  } else {
    trained.source = path;
    const auto has = [&](std::string_view key) {
      return std::ranges::any_of(changes,
                                 [&](const auto& c) { return c.first == key; });
    };
    require(has("model") && has("dataset"), "[weights] '", path,
            "' is no run folder, so that --model and --dataset must say what "
            "its weights are of");
  }
  change(trained.config, changes);
  choose_recipe(trained.config);
  choose_device(trained.config);
  trained.task = make_task(trained.config);
  trained.module = make_model(trained.config.model, trained.task->input(),
                              static_cast<std::uint64_t>(trained.config.seed));
  trained.task->check(*trained.module);
  if (file) {
    copy_into("weights", file->parameters, parameters_of(*trained.module));
    copy_into("weights", file->buffers, buffers_of(*trained.module));
  } else {
    trained.says = import_into(*trained.module, trained.config.model, path);
  }
  return trained;
}

std::string_view choose_split(const TrainedModel& trained,
                              const std::string& asked) {
  const auto all = trained.task->splits();
  if (asked.empty()) return all.front();
  const auto found = std::ranges::find(all, asked);
  std::string known;
  for (const std::string_view name : all) {
    known += concat(known.empty() ? "" : " or ", name);
  }
  require(found != all.end(), "[evaluate] --split must be ", known,
          " for data set '", trained.config.dataset, "', got '", asked, "'");
  return *found;
}

}  // namespace

TrainedScores evaluate_trained(const TrainedSource& source,
                               const std::string& split) {
  const torch::NoGradGuard no_gradients;
  const TrainedModel trained = open_trained(source);
  const torch::Device device = device_of(trained.config, 0);
  trained.module->to(device);
  trained.module->eval();
  EvaluationShare all;
  all.batch = static_cast<std::uint64_t>(trained.config.batch_size);
  all.split = choose_split(trained, split);
  Evaluation result = trained.task->evaluate(*trained.module, device, all);
  result.loss /= result.samples;
  return {trained.source,         trained.says,
          trained.config.model,   trained.config.dataset,
          std::string(all.split), std::string(trained.task->unit()),
          std::move(result)};
}

ExportedFiles export_trained(const TrainedSource& source,
                             const std::string& path) {
  const TrainedModel trained = open_trained(source);
  const std::string kind = weight_kind(trained.config.model);
  std::vector<torch::Tensor> held;
  std::vector<NamedValues> values;
  for (const NamedTensor& t : weights_of(*trained.module)) {
    held.push_back(
        t.tensor.detach().to(torch::kCPU, torch::kFloat32).contiguous());
    values.push_back({{t.name, t.tensor.sizes().vec()},
                      {held.back().data_ptr<float>(),
                       static_cast<std::size_t>(held.back().numel())}});
  }
  ExportOptions options;
  options.kind = kind;
  options.vocabulary = trained.module->architecture().vocabulary;
  options.metadata = {{"format", "pt"}, {"model", trained.config.model}};
  const std::string folder = fs::path(path).parent_path().string();
  if (!folder.empty()) fs::create_directories(folder);
  std::vector<std::string> said = export_weights(path, options, values);
  said.insert(said.begin(), concat(path, ": ", values.size(), " tensors"));
  const auto beside = [&](const char* name, const std::string& text) {
    const std::string file = (fs::path(folder) / name).string();
    write_text(file, text);
    said.push_back(file);
  };
  beside("config.json", trained.module->architecture().type.empty()
                            ? own_config(trained)
                            : to_json(config_of(trained)));
  const std::vector<std::string> labels = trained.task->labels();
  if (!labels.empty()) beside("labels.json", Json(labels).dump(1) + "\n");
  return {trained.source, trained.says, std::move(said)};
}

}  // namespace sluice
