#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "sluice/cli/commands.h"
#include "sluice/cli/compare/job.h"
#include "sluice/cli/compare/methods.h"
#include "sluice/cli/compare/queue.h"
#include "sluice/cli/compare/report.h"
#include "sluice/cli/report/live.h"
#include "sluice/cli/shared/help.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/config/config.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/number_text.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string out;
  std::vector<std::string> methods;
  std::string densities = "0.01";
  std::string seeds = "1";
  std::string target = "dense-0.5";
  std::string budget;
  bool tune = false;
  std::string momenta = "0,0.9";
  std::string rates = "0.25,0.5,1,2";
  std::int64_t jobs = 1;
  std::string preset;
  std::string config;
  std::vector<std::string> job;
  bool overwrite = false;
  bool keep_checkpoints = false;
  bool report_only = false;
  std::string report = "end";
  bool check = false;
};

// What is compared, as in compare.json of the folder.
struct Comparison {
  std::vector<Cell> cells;
  std::size_t jobs = 1;
  std::string grid;  // that recipes were chosen from; empty: none
};

template <class T>
T parse_item(const char* option, const std::string& text, const char* form) {
  T value{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  require(error == std::errc() && end == last, "[compare] ", option,
          " must be numbers joined by commas, as in ", form, ", got '", text,
          "'");
  return value;
}

template <class T>
std::vector<T> parse_list(const char* option, const std::string& text,
                          const char* form) {
  std::vector<T> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const T value =
        parse_item<T>(option, text.substr(begin, end - begin), form);
    require(std::find(values.begin(), values.end(), value) == values.end(),
            "[compare] ", option, " must differ, got ", value, " twice");
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

// "90m", "1.5h", "30s"; seconds without a unit.
double parse_duration(const std::string& text) {
  if (text.empty()) return 0;
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const std::string unit(end, last);
  const double scale = unit.empty() || unit == "s"    ? 1
                       : unit == "m" || unit == "min" ? 60
                       : unit == "h"                  ? 3600
                                                      : 0;
  require(error == std::errc() && scale > 0 && value > 0,
          "[compare] --time-budget must be a time above 0, as in 90m, 1.5h or "
          "30s, got '",
          text, "'");
  return value * scale;
}

// Flags that compare sets itself, and what to use instead.
struct OwnFlag {
  const char* name;
  const char* instead;
  bool for_methods = false;  // a method may have it
};
constexpr OwnFlag kOwnFlags[] = {
    {"--out", "--out before the --"},
    {"--seed", "--seeds"},
    {"--sparsifier", "--methods", true},
    {"--density", "--densities", true},
    {"--resume", "nothing: runs go on by themselves"},
    {"--overwrite", "--overwrite before the --"},
    {"--json", "table.json"},
    {"--report", "--report before the --"},
    {"--check", "nothing: it is checked"},
    {"--print-config", "sluice train"}};

void check_flags(const std::vector<std::string>& flags, bool of_method) {
  for (const std::string& flag : flags) {
    for (const OwnFlag& own : kOwnFlags) {
      if (of_method && own.for_methods) continue;
      require(flag != own.name && !flag.starts_with(concat(own.name, "=")),
              "[compare] ", own.name, " may not be a flag of a ",
              of_method ? "method" : "job", "; use ", own.instead);
    }
  }
}

std::vector<std::string> job_flags(const Options& o) {
  std::vector<std::string> flags;
  if (!o.preset.empty()) flags = {"--preset", o.preset};
  if (!o.config.empty()) flags.insert(flags.end(), {"--config", o.config});
  flags.insert(flags.end(), o.job.begin(), o.job.end());
  return flags;
}

// A row of the table: a method at a density.
struct Row {
  std::string method;
  bool fixed_density = false;
  bool fixed_recipe = false;
  nlohmann::ordered_json config;
  std::string folder;  // without the seed
};

std::vector<Row> make_rows(const Options& o) {
  require(!o.methods.empty(),
          "[compare] --methods must name what to compare, as in "
          "dense,topk,adtopk or all");
  const auto densities =
      parse_list<double>("--densities", o.densities, "0.01,0.001");
  for (const double d : densities) {
    require(d > 0 && d <= 1, "[compare] --densities must be above 0 and at ",
            "most 1, got ", d);
  }
  check_flags(o.job, false);
  const auto methods =
      make_methods(o.methods, [&](const std::vector<std::string>& flags) {
        check_flags(flags, true);
        std::vector<std::string> all = job_flags(o);
        all.insert(all.end(), flags.begin(), flags.end());
        all.push_back("--check");
        return job_configuration(all);
      });
  std::vector<Row> rows;
  for (std::size_t d = 0; d < densities.size(); ++d) {
    for (const Method& m : methods) {
      if (m.fixed_density && d > 0) continue;
      Row row{m.name, m.fixed_density, m.fixed_recipe, m.config, m.name};
      if (!m.fixed_density) {
        row.config["density"] = densities[d];
        row.folder += fmt::format("-{}", densities[d]);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<std::int64_t> parse_seeds(const Options& o) {
  const auto seeds = parse_list<std::int64_t>("--seeds", o.seeds, "1,2");
  for (const std::int64_t seed : seeds) {
    require(seed >= 0, "[compare] --seeds must be 0 or more, got ", seed);
  }
  return seeds;
}

// Seed by seed, so that a table of all methods is there early.
std::vector<Cell> make_cells(const Options& o, const std::vector<Row>& rows,
                             const std::vector<std::int64_t>& seeds) {
  std::vector<Cell> cells;
  for (const std::int64_t seed : seeds) {
    for (const Row& row : rows) {
      const bool dense = row.config.at("sparsifier") == "none";
      Cell cell{row.method,
                dense ? 1 : row.config.at("density").get<double>(),
                row.fixed_density,
                seed,
                {},
                row.config};
      cell.folder = concat(o.out, "/", row.folder, "-s", seed);
      cell.config["seed"] = seed;
      cell.config["out"] = cell.folder;
      for (const Cell& other : cells) {
        require(other.folder != cell.folder,
                "[compare] each run must have a folder of its own, but two "
                "would be '",
                cell.folder, "'; give a method another name");
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

void save(const Options& o, const Comparison& comparison) {
  std::error_code error;
  std::filesystem::create_directories(o.out, error);
  Json json = {{"jobs", comparison.jobs},
               {"grid", comparison.grid},
               {"cells", Json::array()}};
  for (const Cell& cell : comparison.cells) {
    json["cells"].push_back({{"method", cell.method},
                             {"density", cell.density},
                             {"fixed_density", cell.fixed_density},
                             {"seed", cell.seed},
                             {"config", cell.config}});
  }
  const std::string path = o.out + "/compare.json";
  try {
    write_text(path, json.dump(2) + "\n");
  } catch (const std::runtime_error& e) {
    require(false, "[compare] --out must be a folder that can be written, ",
            "got '", o.out, "': ", e.what());
  }
}

// The folder may have been moved since.
Comparison comparison_of(const Json& json, const Options& o) {
  Comparison comparison;
  comparison.jobs = json.at("jobs").get<std::size_t>();
  comparison.grid = json.value("grid", "");
  for (const Json& item : json.at("cells")) {
    Cell cell;
    cell.method = item.at("method").get<std::string>();
    cell.density = item.at("density").get<double>();
    cell.fixed_density = item.at("fixed_density").get<bool>();
    cell.seed = item.at("seed").get<std::int64_t>();
    cell.config = item.at("config");
    const std::filesystem::path folder =
        cell.config.at("out").get<std::string>();
    cell.folder = o.out + "/" + folder.filename().string();
    comparison.cells.push_back(cell);
  }
  return comparison;
}

Comparison load(const Options& o) {
  const std::string path = o.out + "/compare.json";
  const Json json = read_json_or_nothing(path);
  require(json.is_object(), "[compare] --report-only needs the folder of a ",
          "comparison in --out, got '", o.out, "', which has no compare.json");
  require(json.contains("cells") && !json["cells"].empty(), "[compare] '", path,
          "' must be a comparison with at least one run");
  try {
    return comparison_of(json, o);
  } catch (const Json::exception& e) {
    throw std::invalid_argument(
        concat("[compare] '", path, "' must be as sluice compare wrote it: ",
               json_problem(e.what()), "; compare again into another --out"));
  }
}

std::vector<RunRecord> read_runs(const std::vector<Cell>& cells) {
  std::vector<RunRecord> runs;
  for (const Cell& cell : cells) runs.push_back(read_run(cell.folder));
  return runs;
}

// Those that are not finished. Throws if a folder has another run in it that
// would be lost.
std::vector<std::size_t> find_todo(const Options& o, std::vector<Cell>& cells,
                                   const std::vector<RunRecord>& runs) {
  const Json defaults = Json::parse(to_json(TrainConfig()));
  std::vector<std::size_t> todo;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string why;
    if (runs[i].begun) {
      why = config_difference(runs[i].config, cells[i].config, defaults);
    }
    require(why.empty() || o.overwrite,
            "[compare] a run must be of the configuration that is asked for, "
            "but in ",
            cells[i].folder, " ", why,
            "; --overwrite replaces such runs, another --out keeps them");
    cells[i].replace = !why.empty();
    if (!runs[i].finished || cells[i].replace) todo.push_back(i);
  }
  return todo;
}

void report(const Options& o, const Comparison& comparison) {
  const auto runs = read_runs(comparison.cells);
  const Report made =
      make_report(comparison.cells, runs, parse_target(o.target),
                  {comparison.jobs, comparison.grid});
  write_report(o.out, made, comparison.cells, runs);
  if (parse_report_mode("compare", o.report) != ReportMode::kOff) {
    const std::string problem = write_report_page(o.out, o.target);
    if (!problem.empty()) {
      fmt::print(stderr, "[compare] no report.html: {}\n", problem);
    }
  }
  fmt::print("{}", print_report(made));
  std::fflush(stdout);
}

// The runs that are not there yet; throws if a signal stops them.
QueueOutcome run(const Options& o, std::vector<Cell>& cells,
                 const QueueOptions& how) {
  const auto runs = read_runs(cells);
  const auto todo = find_todo(o, cells, runs);
  fmt::print(stderr, "[compare] {} runs, {} of them finished before; {}\n",
             cells.size(), cells.size() - todo.size(), o.out);
  std::optional<LiveReport> live;
  if (parse_report_mode("compare", o.report) == ReportMode::kLive) {
    live.emplace(o.out, o.target);
  }
  const QueueOutcome outcome = run_cells(cells, runs, todo, how);
  if (outcome.left > 0 && !outcome.stopped) {
    fmt::print(stderr,
               "[compare] {} of {} runs are left: they would not end within "
               "--time-budget {}; the same command goes on\n",
               outcome.left, cells.size(), o.budget);
  }
  return outcome;
}

void expect_end(const QueueOutcome& outcome, std::size_t count) {
  if (!outcome.stopped) return;
  throw std::runtime_error(concat("[compare] stopped by a signal with ",
                                  outcome.left, " of ", count,
                                  " runs left; the same command goes on"));
}

Grid parse_grid(const Options& o) {
  Grid grid{parse_list<double>("--tune-momenta", o.momenta, "0,0.9"),
            parse_list<double>("--tune-rates", o.rates, "0.5,1,2")};
  for (const double m : grid.momenta) {
    require(m >= 0 && m < 1,
            "[compare] --tune-momenta must be from 0 to below 1, got ",
            shortest(m));
  }
  for (const double r : grid.rates) {
    require(r > 0, "[compare] --tune-rates must be above 0, got ", r);
  }
  return grid;
}

// Each row with the recipe of the grid that ends best with the first seed; none
// if not all could be tried. A row none of whose runs ended keeps its own.
std::vector<Row> tune(const Options& o, const std::vector<Row>& rows,
                      std::int64_t seed, const QueueOptions& how) {
  const Grid grid = parse_grid(o);
  std::vector<Row> tried;
  std::vector<std::size_t> row_of;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].fixed_recipe) continue;
    for (const Json& config : tried_recipes(rows[r].config, grid)) {
      Row row = rows[r];
      row.config = config;
      std::string recipe = recipe_text(config);
      row.method += " (" + recipe + ")";
      std::erase_if(recipe, [](char c) { return c == ' ' || c == ','; });
      row.folder = concat(row.folder, "-", recipe);
      tried.push_back(std::move(row));
      row_of.push_back(r);
    }
  }
  std::vector<Cell> cells = make_cells(o, tried, {seed});
  const QueueOutcome outcome = run(o, cells, how);
  expect_end(outcome, cells.size());
  if (outcome.left > 0) return {};
  const auto runs = read_runs(cells);
  std::vector<Row> best = rows;
  std::vector<double> score(rows.size(),
                            std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t r = row_of[i];
    const bool ended = runs[i].finished && !runs[i].evaluations.empty();
    if (!ended || !runs[i].kind->better(runs[i].final_score(), score[r])) {
      continue;
    }
    score[r] = runs[i].final_score();
    best[r] = tried[i];
    best[r].method = rows[r].method;
  }
  for (const Row& row : best) {
    fmt::print(stderr, "[compare] {}: {}\n", row.folder,
               recipe_text(row.config));
  }
  return best;
}

void say_what_would_run(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    fmt::print("[compare] {}: {}, in {}\n", cell.describe(),
               recipe_text(cell.config), cell.folder);
  }
  fmt::print(
      "[compare] nothing is wrong with these {} runs, and none was "
      "begun\n",
      cells.size());
}

void compare(const Options& o) {
  require(!mpi_launched(), "[compare] must be started without mpirun or srun: ",
          "its runs start their own workers");
  require(!o.out.empty(), "[compare] --out must name a folder for the runs");
  parse_target(o.target);
  parse_report_mode("compare", o.report);
  if (o.report_only) {
    report(o, load(o));
    return;
  }
  require(o.jobs >= 1 && o.jobs <= 1024,
          "[compare] --jobs must be from 1 to 1024, got ", o.jobs);
  QueueOptions how;
  how.jobs = static_cast<std::size_t>(o.jobs);
  how.budget_s = parse_duration(o.budget);
  how.keep_checkpoints = o.keep_checkpoints;
  how.pages = parse_report_mode("compare", o.report) != ReportMode::kOff;
  const auto seeds = parse_seeds(o);
  std::vector<Row> rows = make_rows(o);
  Comparison comparison{make_cells(o, rows, seeds), how.jobs, {}};
  if (o.check) return say_what_would_run(comparison.cells);
  if (o.tune) {
    const auto start = std::chrono::steady_clock::now();
    rows = tune(o, rows, seeds[0], how);
    if (rows.empty()) return;
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    if (how.budget_s > 0)
      how.budget_s = std::max(1.0, how.budget_s - took.count());
    comparison.cells = make_cells(o, rows, seeds);
    comparison.grid = concat("momentum ", o.momenta, " x rate ", o.rates);
  }
  save(o, comparison);
  const QueueOutcome outcome = run(o, comparison.cells, how);
  report(o, comparison);
  const std::size_t count = comparison.cells.size();
  expect_end(outcome, count);
  if (outcome.failed > 0) {
    throw std::runtime_error(
        concat("[compare] ", outcome.failed, " of ", count,
               " runs failed; the table says why, and log.txt in their folders "
               "says more"));
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train one job with several methods, densities and seeds");
  command->add_option("--out", o->out, "Folder for the runs and the table");
  CLI::Option* methods =
      command
          ->add_option(
              "--methods", o->methods,
              "Joined by commas: all, dense, dense-bf16, sparsifiers "
              "(with +FEEDBACK and +COLLECTIVE), collectives; or your own "
              "one as NAME=FLAGS. May be given several times")
          // Or it would take the -- for the end of its own list.
          ->allow_extra_args(false);
  command->add_option("--densities", o->densities, "Joined by commas")
      ->capture_default_str();
  command->add_option("--seeds", o->seeds, "Joined by commas")
      ->capture_default_str();
  command
      ->add_option(
          "--target", o->target,
          "Score whose time is compared, as in 88.5, or so much worse than "
          "dense, as in dense-0.5 (a percentage: of points; else: of "
          "percent of dense's)")
      ->capture_default_str();
  command->add_option("--time-budget", o->budget,
                      "Begin no run that would not end within it: 90m, 2h");
  command->add_flag("--tune", o->tune,
                    "Give each method its best recipe: try all of the grid "
                    "below with the first seed");
  command->add_option("--tune-momenta", o->momenta, "Joined by commas")
      ->capture_default_str();
  command
      ->add_option("--tune-rates", o->rates,
                   "Multiples of the method's own rate, joined by commas")
      ->capture_default_str();
  command
      ->add_option("--jobs", o->jobs,
                   "Runs at the same time; their times are then not comparable")
      ->capture_default_str();
  command->add_option("--preset", o->preset,
                      "The job, as in `sluice list presets`");
  command->add_option("--config", o->config,
                      "JSON file with the job, as for train");
  command->add_flag("--overwrite", o->overwrite,
                    "Replace runs of another configuration");
  command->add_flag("--keep-checkpoints", o->keep_checkpoints,
                    "Also of runs that are finished");
  command
      ->add_option("--report", o->report,
                   "When report.html is written: at the end, again and again "
                   "while runs go on (live), or never, nor by the runs (off)")
      ->capture_default_str();
  command->add_flag("--report-only", o->report_only,
                    "Write table and plots again; needs --out only");
  command->add_flag("--check", o->check,
                    "Check the job and the methods, say what would run, then "
                    "end");
  CLI::Option* job =
      command->add_option("job", o->job, "The job, after --: flags of train");
  group_options(*command, "What is compared",
                {"--methods", "--densities", "--seeds", "--target", "--preset",
                 "--config"});
  group_options(*command, "Recipes",
                {"--tune", "--tune-momenta", "--tune-rates"});
  add_examples(
      *command,
      {"sluice compare --out runs/cmp --methods dense,topk,dgc --densities "
       "0.01,0.001 --seeds 1,2 -- --model mlp --epochs 10",
       "sluice compare --out runs/cmp --report-only"});
  // The last one wins, so that scripts can append.
  for (CLI::Option* option : command->get_options()) {
    if (option == methods || option == job) continue;
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  command->callback([o] { compare(*o); });
}

}  // namespace sluice
