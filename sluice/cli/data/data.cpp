#include "sluice/cli/commands.h"

namespace sluice {

void add_data(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Prepare data to train on");
  data->require_subcommand(1);
  data->option_defaults()->always_capture_default();
  add_data_vocab(*data);
}

}  // namespace sluice
