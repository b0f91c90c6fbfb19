#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "sluice/cli/shared/table.h"

// How commands explain themselves.

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace sluice {

// One name per option, which is its first: later ones are old spellings that
// still work. Descriptions are broken at 100 columns.
std::shared_ptr<CLI::FormatterBase> make_help_formatter();

// Options by their names, under a heading of their own. Throws
// CLI::OptionNotFound for a name that the command does not have.
void group_options(CLI::App& command, const std::string& heading,
                   std::initializer_list<const char*> names);

// Commands to type, as they stand, at the end of the help.
void add_examples(CLI::App& command,
                  std::initializer_list<const char*> examples);

// --json and --csv, and --wide for tables that have wide columns.
void add_output_options(CLI::App& command, OutputOptions& output,
                        bool has_wide = false);

}  // namespace sluice
