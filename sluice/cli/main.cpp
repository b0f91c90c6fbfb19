#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/launch.h"

namespace {

// One line for people and scripts alike.
int fail(const std::string& message) {
  sluice::let_first_process_speak();
  fmt::print(stderr, "{}\n", message);
  return 1;
}

// The commands that could have followed, of the deepest one that was given.
std::string commands_of(const CLI::App& app) {
  for (const CLI::App* given : app.get_subcommands()) {
    if (!given->get_subcommands(nullptr).empty()) return commands_of(*given);
  }
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names += (names.empty() ? "" : " ") + command->get_name();
  }
  return names;
}

std::string describe(const CLI::App& app, const CLI::ParseError& e) {
  std::string given;
  for (const std::string& word : app.remaining(true)) {
    given += (given.empty() ? "" : " ") + word;
  }
  if (e.get_name() == "RequiredError" || !given.empty()) {
    return fmt::format(
        "[sluice] expected a known command or option, got '{}'; commands here: "
        "{}; --help says more",
        given, commands_of(app));
  }
  std::string what = e.what();
  while (!what.empty() && what.back() == '\n') what.pop_back();
  return fmt::format("[sluice] {}; --help says more", what);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Sluice: train across slow networks as if they were fast"};
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(1);
  sluice::add_list(app);
  sluice::add_bench(app);
  sluice::add_probe(app);
  sluice::add_train(app);
  sluice::add_compare(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(describe(app, e));
  } catch (const std::bad_alloc&) {
    return fail("[sluice] not enough memory; ask for fewer elements");
  } catch (const std::exception& e) {
    return fail(e.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(fmt::format("[sluice] standard output must be writable: {}",
                            std::strerror(errno)));
  }
  return 0;
}
