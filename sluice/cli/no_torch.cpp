#include <stdexcept>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/build_info.h"
#include "sluice/cli/shared/kinds.h"

namespace sluice {

std::span<const Kind> training_kinds() { return {}; }
std::vector<BuildPart> training_parts() {
  std::vector<BuildPart> parts;
  for (const char* name : {"torch", "jpeg", "png", "sndfile"}) {
    parts.push_back({name, built_in(false, "")});
  }
  return parts;
}

namespace {

void add_missing(CLI::App& app, const std::string& name,
                 const std::string& what) {
  CLI::App* command = app.add_subcommand(name, what + " (not in this build)");
  command->allow_extras();
  command->callback([name] {
    throw std::runtime_error(
        "[" + name +
        "] needs a build with LibTorch, got one without; `pip install torch` "
        "into .venv and configure with -DSLUICE_WITH_TORCH=ON");
  });
}

}  // namespace

void add_train(CLI::App& app) { add_missing(app, "train", "Train a network"); }

void add_evaluate(CLI::App& app) {
  add_missing(app, "evaluate", "Scores of a trained model");
}
void add_export(CLI::App& app) {
  add_missing(app, "export", "Weights of a run as safetensors");
}

void add_bench_data(CLI::App& bench) {
  add_missing(bench, "data", "Samples per second of image folders");
}

void add_bench_audio(CLI::App& bench) {
  add_missing(bench, "audio", "Seconds that an hour of speech takes");
}

}  // namespace sluice
