#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "sluice/cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Sluice: train across slow networks as if they were fast"};
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  sluice::add_list(app);
  sluice::add_bench(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
