#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/ensure.h"
#include "sluice/torch/train/trained_model.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// The fields of a configuration that decide about a model and its data.
constexpr std::pair<const char*, const char*> kFields[] = {
    {"model", "What the weights are of, if they are not a run's"},
    {"dataset", "What it is evaluated on; of a run: other than its own"},
    {"data_dir", "Where the data are"},
    {"length", "Tokens of a piece of text"},
    {"batch_size", "Samples at a time"},
    {"device", "cpu, cuda or cuda:N"},
};

struct Options {
  TrainedSource source;
  std::string split;
  std::string to;
  bool json = false;
};

void add_fields(CLI::App& command, const std::shared_ptr<Options>& o) {
  command
      .add_option("WHAT", o->source.path,
                  "A run folder, a checkpoint, or weights")
      ->required();
  for (const auto& [field, doc] : kFields) {
    std::string flag = std::string("--") + field;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const std::string key = field;
    command.add_option_function<std::string>(
        flag,
        [o, key](const std::string& value) {
          o->source.changes.emplace_back(key, value);
        },
        doc);
  }
  command.add_flag("--json", o->json, "For programs");
}

void evaluate(const Options& o) {
  const TrainedScores trained = evaluate_trained(o.source, o.split);
  const Evaluation& result = trained.evaluation;
  Json json = {{"source", trained.source},   {"model", trained.model},
               {"dataset", trained.dataset}, {"split", trained.split},
               {"samples", result.samples},  {"unit", trained.unit},
               {"loss", result.loss}};
  for (const Score& s : result.scores) json[s.kind->name] = s.value();
  if (o.json) {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}\n{} {} of {}: loss {:.4f}", trained.says, result.samples,
             trained.unit, trained.split, result.loss);
  for (const Score& s : result.scores) {
    fmt::print(", {} {}", s.kind->label, s.kind->text(s.value()));
  }
  fmt::print("\n");
}

void export_to(const Options& o) {
  require(o.to.ends_with(".safetensors"),
          "[export] --to must name a file that ends in .safetensors, got '",
          o.to, "'");
  const ExportedFiles made = export_trained(o.source, o.to);
  if (o.json) {
    const Json json = {{"source", made.source}, {"written", made.written}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}\n", made.says);
  for (const std::string& line : made.written) fmt::print("{}\n", line);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Scores of a trained model, of a run or of a file");
  add_fields(*command, o);
  command->add_option("--split", o->split,
                      "Of texts valid, as runs do, or test; of others test");
  add_examples(
      *command,
      {"sluice evaluate runs/a", "sluice evaluate runs/lstm --split test",
       "sluice evaluate model.safetensors --model resnet50 --dataset "
       "imagefolder --data-dir /data/flowers"});
  command->callback([o] { evaluate(*o); });
}

void add_export(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "export", "Weights of a run as safetensors, with config.json");
  add_fields(*command, o);
  command->add_option("--to", o->to, "The file, as in out/model.safetensors")
      ->required();
  add_examples(*command, {"sluice export runs/a --to out/model.safetensors"});
  command->callback([o] { export_to(*o); });
}

}  // namespace sluice
