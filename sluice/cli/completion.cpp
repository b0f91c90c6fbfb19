#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/kinds.h"

// Scripts that let shells complete commands, options and values. They are made
// from what the program knows of itself, so that they know all of it.

namespace sluice {
namespace {

struct OptionWords {
  std::string name;  // --name
  std::string help;
  bool takes_value = false;
  std::vector<std::string> values;
  bool files = false;  // where there are no such values
};

struct CommandWords {
  std::string path;  // "bench select"; "": the program itself
  std::vector<std::pair<std::string, std::string>> commands;  // with help
  std::vector<OptionWords> options;
  std::vector<std::string> values;  // of what is no option
};

// Where an option takes names that `sluice list` knows.
constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
    {"--sparsifier", "sparsifiers"},
    {"--feedback", "feedback"},
    {"--codec", "codecs"},
    {"--collective", "collectives"},
    {"--model", "models"},
    {"--dataset", "datasets"},
    {"--preset", "presets"},
    {"--optimizer", "optimizers"},
    {"--plan", "planners"},
    {"--planner", "planners"},
    {"--planners", "planners"},
    {"--methods", "sparsifiers"},
    {"--lr-schedule", "lr-schedules"}};

std::vector<std::string> names_of(std::string_view kind) {
  std::vector<std::string> names;
  for (const Kind& one : all_kinds()) {
    if (one.name != kind) continue;
    for (const Description& d : one.describe()) names.emplace_back(d.name);
  }
  return names;
}

// The choices of a type such as "TEXT:{cpu,cuda}".
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (close == std::string::npos) return choices;
  for (std::size_t at = open + 1; at <= close;) {
    const std::size_t end = std::min(type.find(',', at), close);
    choices.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

// One line without what shells would take for their own.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, text.find_first_of(".;\n"))) {
    if (std::string_view("'\"`$\\[]:").find(c) == std::string_view::npos) {
      out += c;
    }
  }
  return out;
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  words.name = "--" + option.get_lnames().front();
  words.help = plain(option.get_description());
  words.takes_value = option.get_expected_max() > 0;
  words.values = choices_of(option.get_type_name());
  for (const auto& [name, kind] : kNamed) {
    if (name == words.name && words.values.empty()) {
      words.values = names_of(kind);
    }
  }
  words.files = words.values.empty() && option.get_type_name() == "TEXT";
  return words;
}

void add_words(const CLI::App& app, const std::string& path,
               std::vector<CommandWords>& out) {
  CommandWords words;
  words.path = path;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) {
      words.options.push_back(words_of(*option));
    } else if (words.values.empty()) {
      words.values = choices_of(option->get_type_name());
    }
  }
  const auto children =
      app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* child : children) {
    words.commands.emplace_back(child->get_name(),
                                plain(child->get_description()));
  }
  out.push_back(std::move(words));
  for (const CLI::App* child : children) {
    add_words(*child,
              path.empty() ? child->get_name() : path + " " + child->get_name(),
              out);
  }
}

// Words of a command that are no options: commands below it, or values.
std::vector<std::string> plain_words(const CommandWords& c) {
  std::vector<std::string> words = c.values;
  for (const auto& command : c.commands) words.push_back(command.first);
  return words;
}

// What the shells of the Bourne family share: `place` becomes the command that
// was typed, and what follows -- of compare is a job of train.
std::string find_path(const std::vector<CommandWords>& all) {
  std::string patterns;
  for (const CommandWords& c : all) {
    if (c.path.empty()) continue;
    patterns += fmt::format("{}'{}'", patterns.empty() ? "" : "|", c.path);
  }
  return fmt::format(R"(    case "${{place:+$place }}$word" in
      {}) place="${{place:+$place }}$word" ;;
      'compare --') place=train ;;
    esac
)",
                     patterns);
}

// Lines of a case: what may follow, and what an option takes.
std::string bash_cases(const std::vector<CommandWords>& all) {
  std::string out;
  for (const CommandWords& c : all) {
    std::string names;
    for (const OptionWords& o : c.options) names += " " + o.name;
    for (const OptionWords& o : c.options) {
      if (!o.takes_value) continue;
      out +=
          fmt::format("    '{} {}') words='{}' files={} ;;\n", c.path, o.name,
                      fmt::join(o.values, " "), o.files ? "yes" : "");
    }
    out += fmt::format("    '{} -'*) words='{}' ;;\n", c.path, names.substr(1));
    const auto rest = plain_words(c);
    out += fmt::format("    '{} ') words='{}' files={} ;;\n", c.path,
                       fmt::join(rest, " "), rest.empty() ? "yes" : "");
  }
  return out;
}

// A value of several is completed behind its last comma.
std::string bash_script(const std::vector<CommandWords>& all) {
  return fmt::format(
      R"(# Completion of sluice for bash: source it, or put it into
# ~/.local/share/bash-completion/completions/sluice
_sluice() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local place= word words= files= head= key
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{0}  done
  case $current in -*) key=- ;; *) key= ;; esac
  case $before in --?*) [[ $key ]] || key=$before ;; esac
  _sluice_words "$place $key"
  if [[ -z $words$files && $key == --?* ]]; then _sluice_words "$place "; fi
  if [[ $words && $current == *,* ]]; then head=${{current%,*}},; fi
  mapfile -t COMPREPLY < <(compgen -P "$head" -W "$words" -- "${{current##*,}}")
  if [[ $files ]]; then
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
_sluice_words() {{
  case $1 in
{1}  esac
}}
complete -o filenames -F _sluice sluice
)",
      find_path(all), bash_cases(all));
}

std::string zsh_cases(const std::vector<CommandWords>& all) {
  std::string out;
  for (const CommandWords& c : all) {
    out += fmt::format("    '{}')\n      _arguments -s", c.path);
    for (const OptionWords& o : c.options) {
      out += fmt::format(" \\\n        '{}[{}]{}'", o.name, o.help,
                         !o.takes_value ? ""
                         : o.files      ? ":value:_files"
                         : o.values.empty()
                             ? ":value: "
                             : fmt::format(":value:_sequence compadd - {}",
                                           fmt::join(o.values, " ")));
    }
    const auto rest = plain_words(c);
    out += rest.empty() ? " \\\n        '*:file:_files' ;;\n"
                        : fmt::format(" \\\n        '1:what:({})' ;;\n",
                                      fmt::join(rest, " "));
  }
  return out;
}

std::string zsh_script(const std::vector<CommandWords>& all) {
  return fmt::format(R"(#compdef sluice
# Completion of sluice for zsh: put it into a folder of $fpath as _sluice
_sluice() {{
  local place= before= word
  local -i at=1 last=1
  for word in "${{words[@]:1:CURRENT-2}}"; do
    (( ++at ))
    before=$place
{0}    [[ $place == $before ]] || last=$at
  done
  words=("${{words[@]:$last-1}}")
  (( CURRENT -= last - 1 ))
  case $place in
{1}  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
)",
                     find_path(all), zsh_cases(all));
}

std::string fish_script(const std::vector<CommandWords>& all) {
  std::string out = fmt::format(
      R"(# Completion of sluice for fish: put it into
# ~/.config/fish/completions/sluice.fish
function __sluice_at
    set -l path
    for word in (commandline -opc)[2..-1]
        switch "$path $word"
            case {}
                set path $path $word
            case 'compare --'
                set path train
        end
    end
    test "$path" = "$argv[1]"
end
)",
      [&] {
        std::string patterns;
        for (const CommandWords& c : all) {
          if (!c.path.empty()) {
            const bool below = c.path.find(' ') != std::string::npos;
            patterns += fmt::format("'{}{}' ", below ? "" : " ", c.path);
          }
        }
        return patterns;
      }());
  for (const CommandWords& c : all) {
    const std::string here =
        fmt::format("complete -c sluice -n \"__sluice_at '{}'\"", c.path);
    for (const auto& [name, help] : c.commands) {
      out += fmt::format("{} -f -a {} -d '{}'\n", here, name, help);
    }
    if (!c.values.empty()) {
      out += fmt::format("{} -f -a '{}'\n", here, fmt::join(c.values, " "));
    }
    for (const OptionWords& o : c.options) {
      out += fmt::format(
          "{} -l {}{}{} -d '{}'\n", here, o.name.substr(2),
          !o.takes_value ? ""
          : o.files      ? " -r"
                         : " -x",
          o.values.empty() ? ""
                           : fmt::format(" -a '{}'", fmt::join(o.values, " ")),
          o.help);
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand(
      "completion",
      "Print a script that lets a shell complete commands, options and names");
  completion->add_option("shell", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  add_examples(*completion, {"sluice completion bash > sluice.bash",
                             "sluice completion zsh > _sluice",
                             "sluice completion fish > sluice.fish"});
  completion->callback([&app, shell] {
    std::vector<CommandWords> all;
    add_words(app, "", all);
    fmt::print("{}", *shell == "bash"  ? bash_script(all)
                     : *shell == "zsh" ? zsh_script(all)
                                       : fish_script(all));
  });
}

}  // namespace sluice
