#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"

namespace sluice {

void add_data(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Prepare data to train on");
  data->require_subcommand(1);
  data->option_defaults()->always_capture_default();
  add_data_vocab(*data);
  add_examples(*data, {"sluice data vocab --size 4096 --out vocab book.txt"});
}

}  // namespace sluice
