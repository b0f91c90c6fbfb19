#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/build_info.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/launch.h"
#include "sluice/core/message.h"
#include "sluice/core/nearest_name.h"

namespace {

// One line for people and scripts alike.
int fail(const std::string& message) {
  sluice::let_first_process_speak();
  fmt::print(stderr, "{}\n", message);
  return 1;
}

// The command that was given words it does not know, else the last one.
const CLI::App& puzzled(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() || !app.remaining().empty() ? app : puzzled(*given[0]);
}

std::string no_option(const CLI::App& app, const CLI::App& command,
                      const std::string& word) {
  std::vector<std::string_view> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  }
  const std::string given = word.substr(0, word.find('='));
  const std::size_t dashes =
      std::min(given.find_first_not_of('-'), given.size());
  const std::string name = command.get_name();
  const bool study = name == "gradients" || name == "convergence";
  if ((name == "compare" || study) &&
      app.get_subcommand("train")->get_option_no_throw(given) != nullptr) {
    return fmt::format(
        "[{0}] '{1}' is an option of the job; put '--' before it, as in "
        "sluice {2}{0} --out runs/a -- {3}",
        name, given, study ? "study " : "", word);
  }
  return fmt::format("[{}] no option '{}'; did you mean '--{}'? --help has all",
                     command.get_name(), given,
                     sluice::nearest_name(known, given.substr(dashes)));
}

std::string describe(const CLI::App& app, const CLI::ParseError& e) {
  const CLI::App& command = puzzled(app);
  const std::vector<std::string> given = command.remaining();
  if (!given.empty() && given[0].starts_with('-')) {
    return no_option(app, command, given[0]);
  }
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands(nullptr)) {
    names.push_back(one->get_name());
  }
  if (!names.empty()) {
    return fmt::format("[{}] expected a command, got '{}'; known: {}",
                       command.get_name(), fmt::join(given, " "),
                       fmt::join(names, " "));
  }
  std::string what = e.what();
  while (!what.empty() && what.back() == '\n') what.pop_back();
  return fmt::format("[{}] {}; --help says more", command.get_name(), what);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Sluice: train across slow networks as if they were fast",
               "sluice"};
  app.formatter(sluice::make_help_formatter());
  app.set_version_flag("--version", &sluice::version_text,
                       "What this build is, and what it has");
  app.require_subcommand(1);
  sluice::add_list(app);
  sluice::add_bench(app);
  sluice::add_probe(app);
  sluice::add_plan(app);
  sluice::add_advise(app);
  sluice::add_train(app);
  sluice::add_evaluate(app);
  sluice::add_export(app);
  sluice::add_compare(app);
  sluice::add_study(app);
  sluice::add_report(app);
  sluice::add_data(app);
  sluice::add_completion(app);
  sluice::add_examples(
      app, {"sluice help train", "sluice list sparsifiers",
            "sluice train --workers 2 --sparsifier adtopk --density 0.01 "
            "--out runs/a"});
  // The last word first, as CLI11 wants them.
  std::vector<std::string> words(std::reverse_iterator(argv + argc),
                                 std::reverse_iterator(argv + 1));
  if (words.empty() || words.back() == "help") {
    if (!words.empty()) words.pop_back();
    words.insert(words.begin(), "--help");
  }
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& e) {
    const CLI::App& last = puzzled(app);
    const bool parent = !last.get_subcommands(nullptr).empty();
    return parent && !last.remaining().empty() ? fail(describe(app, e))
                                               : app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(describe(app, e));
  } catch (const std::bad_alloc&) {
    return fail("[sluice] not enough memory; ask for fewer elements");
  } catch (const std::exception& e) {
    return fail(sluice::message_of(e));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(fmt::format("[sluice] standard output must be writable: {}",
                            std::strerror(errno)));
  }
  return 0;
}
