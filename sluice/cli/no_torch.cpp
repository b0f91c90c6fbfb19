#include <stdexcept>

#include "sluice/cli/commands.h"
#include "sluice/cli/kinds.h"

namespace sluice {

std::span<const Kind> training_kinds() { return {}; }

void add_train(CLI::App& app) {
  CLI::App* train =
      app.add_subcommand("train", "Train a network (not in this build)");
  train->allow_extras();
  train->callback([] {
    throw std::runtime_error(
        "[train] needs a build with LibTorch, got one without; `pip install "
        "torch` into .venv and configure with -DSLUICE_WITH_TORCH=ON");
  });
}

}  // namespace sluice
