#include "sluice/cli/study/studied_runs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sluice/cli/compare/job.h"
#include "sluice/cli/compare/methods.h"
#include "sluice/cli/compare/queue.h"
#include "sluice/cli/study/study_file.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/config/config.h"
#include "sluice/core/error.h"
#include "sluice/core/number_text.h"
#include "sluice/study/study.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Flags that a study sets itself, and what to use instead.
constexpr std::pair<const char*, const char*> kOwnFlags[] = {
    {"--out", "--out before the --"},
    {"--study", "the options before the --"},
    {"--resume", "sluice train --study"},
    {"--overwrite", "--overwrite before the --"},
    {"--json", "--json before the --"},
    {"--check", "nothing: it is checked"},
    {"--print-config", "sluice train"}};

void check_flags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    for (const auto& [own, instead] : kOwnFlags) {
      require(flag != own && !flag.starts_with(concat(own, "=")), "[study] ",
              own, " may not be a flag of the job; use ", instead);
    }
  }
}

std::vector<std::string> flags_of(const StudiedJob& o) {
  std::vector<std::string> flags;
  if (!o.preset.empty()) flags = {"--preset", o.preset};
  if (!o.config.empty()) flags.insert(flags.end(), {"--config", o.config});
  flags.insert(flags.end(), o.job.begin(), o.job.end());
  return flags;
}

// The job as it is, but with a plan that the clock has no say in.
Method own_method(const Configure& configure) {
  TrainConfig config;
  change_by_json(config, "study", configure({}).dump());
  if (config.plan == "auto" && config.costs.empty()) {
    config.plan = first_plan(config);
  }
  const bool dense = config.sparsifier == "none";
  return {dense ? "dense" : config.sparsifier, Json::parse(to_json(config)),
          true};
}

std::vector<Method> methods_of(const StudiedJob& o,
                               const std::vector<std::string>& words,
                               const Json& study) {
  const Configure configure = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = flags_of(o);
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"--study", study.dump(), "--check"});
    return job_configuration(flags);
  };
  if (words.empty()) return {own_method(configure)};
  const auto methods = make_methods(words, configure);
  for (const Method& m : methods) {
    require(!m.is_dense(), "[study] --methods must select entries, but '",
            m.name, "' sends all of them; leave it out");
  }
  return methods;
}

std::string folder_name(const std::string& method) {
  std::string name = method;
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       c == '.' || c == '+' || c == '-';
    if (!plain) c = '_';
  }
  return name;
}

std::vector<Cell> cells_of(const StudiedJob& o,
                           const std::vector<Method>& methods, double density,
                           const Json& study) {
  std::vector<Cell> cells;
  for (const Method& m : methods) {
    Cell cell;
    cell.method = m.name;
    cell.config = m.config;
    cell.config["study"] = study.dump();
    if (!m.fixed_density) cell.config["density"] = density;
    cell.density = cell.config.at("density").get<double>();
    cell.fixed_density = m.fixed_density;
    cell.seed = cell.config.at("seed").get<std::int64_t>();
    cell.folder = o.out + "/runs/" + folder_name(m.name);
    cell.config["out"] = cell.folder;
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace

void add_studied_job(CLI::App& command, StudiedJob& o) {
  command.add_option("--out", o.out, "Folder for what is found");
  command.add_option("--every", o.every, "Steps from one look to the next")
      ->capture_default_str();
  command
      .add_option("--layers", o.layers,
                  "Names of tensors, with * and ?, joined by commas")
      ->capture_default_str();
  command
      .add_option("--least", o.least, "Elements of a layer that is looked at")
      ->capture_default_str();
  command.add_option("--preset", o.preset,
                     "The job, as in `sluice list presets`");
  command.add_option("--config", o.config,
                     "JSON file with the job, as for train");
  command.add_flag("--overwrite", o.overwrite,
                   "Replace the study that is in --out");
  command.add_flag("--json", o.json, "Print study.json");
  command.add_option("job", o.job, "The job, after --: flags of train");
}

void let_last_win(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() > 1) continue;
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

std::string spaced(const std::string& list) {
  std::string out = list;
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

std::vector<StudiedRun> run_studied(const StudiedJob& o,
                                    const std::vector<std::string>& methods,
                                    double density, const Json& study) {
  require(!mpi_launched(), "[study] must be started without mpirun or srun: ",
          "the job starts its own workers");
  require(density > 0 && density <= 1,
          "[study] --density must be above 0 and at most 1, got ",
          shortest(density));
  check_flags(o.job);
  const auto cells = cells_of(o, methods_of(o, methods, study), density, study);
  open_study_folder(o.out, o.overwrite);
  std::vector<std::size_t> todo(cells.size());
  for (std::size_t i = 0; i < todo.size(); ++i) todo[i] = i;
  const QueueOutcome outcome = run_cells(
      cells, std::vector<RunRecord>(cells.size()), todo, QueueOptions());
  if (outcome.failed + outcome.left > 0) {
    throw std::runtime_error(concat(
        "[study] all runs must end, but of ", cells.size(), ' ', outcome.failed,
        " failed and ", outcome.left, " were stopped; log.txt in ", o.out,
        "/runs says why, and --overwrite starts again"));
  }
  std::vector<StudiedRun> runs;
  for (const Cell& cell : cells) {
    runs.push_back({cell.method, cell.config, read_run(cell.folder),
                    read_study_rows(cell.folder + "/" + Study::kRows)});
  }
  return runs;
}

std::string describe_job(const StudiedRun& run) {
  const Json& c = run.config;
  double steps = 0;
  for (const auto& loss : run.record.losses) steps = std::max(steps, loss.step);
  const auto workers = c.at("workers").get<std::int64_t>();
  return fmt::format("{} on {}, {} worker{}, {:.0f} steps, seed {}",
                     c.at("model").get<std::string>(),
                     c.at("dataset").get<std::string>(), workers,
                     workers == 1 ? "" : "s", steps,
                     c.at("seed").get<std::int64_t>());
}

}  // namespace sluice
