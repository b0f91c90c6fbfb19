#include "sluice/cli/shared/help.h"

#include <CLI/CLI.hpp>

#include "sluice/run/terminal.h"

namespace sluice {
namespace {

constexpr std::size_t kPage = 100;
constexpr std::size_t kNames = 30;

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNames); }

  std::string make_option_name(const CLI::Option* option,
                               bool is_positional) const override {
    const auto& names = option->get_lnames();
    if (is_positional || names.size() < 2) {
      return Formatter::make_option_name(option, is_positional);
    }
    return "--" + names.front();
  }
  // Many choices are part of the description.
  std::string make_option_opts(const CLI::Option* option) const override {
    return has_many_choices(option) ? " TEXT"
                                    : Formatter::make_option_opts(option);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (has_many_choices(option)) {
      text +=
          ": " +
          CLI::detail::find_and_replace(
              option->get_type_name().substr(option->get_type_name().find('{')),
              ",", ", ");
    }
    return wrap(text, kPage - kNames);
  }
  std::string make_description(const CLI::App* app) const override {
    return wrap(app->get_description(), kPage) + "\n";
  }
  static bool has_many_choices(const CLI::Option* option) {
    constexpr std::size_t kMany = 60;
    const std::string type = option->get_type_name();
    return type.size() > kMany && type.find('{') != std::string::npos;
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    std::stringstream out;
    CLI::detail::format_help(out, sub->get_display_name(true),
                             wrap(sub->get_description(), kPage - kNames),
                             kNames);
    return out.str();
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpFormatter>();
}

void group_options(CLI::App& command, const std::string& heading,
                   std::initializer_list<const char*> names) {
  for (const char* name : names) command.get_option(name)->group(heading);
}

void add_examples(CLI::App& command,
                  std::initializer_list<const char*> examples) {
  std::string text = "Examples:";
  for (const char* example : examples) text += std::string("\n  ") + example;
  command.footer(text);
}

void add_output_options(CLI::App& command, OutputOptions& output,
                        bool has_wide) {
  command.add_flag("--json", output.json, "Print a JSON array")
      ->group("Output");
  command.add_flag("--csv", output.csv, "Print CSV")
      ->excludes("--json")
      ->group("Output");
  if (!has_wide) return;
  command.add_flag("--wide", output.wide, "Print all columns of the table")
      ->group("Output");
}

}  // namespace sluice
