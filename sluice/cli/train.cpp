#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>

#include "sluice/audio/sound.h"
#include "sluice/cli/commands.h"
#include "sluice/cli/report/live.h"
#include "sluice/cli/shared/build_info.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/kinds.h"
#include "sluice/cli/shared/launch.h"
#include "sluice/cli/shared/table.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/config/preset.h"
#include "sluice/config/recipe.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/data/jpeg.h"
#include "sluice/data/png.h"
#include "sluice/run/checkpoint_store.h"
#include "sluice/run/line_writer.h"
#include "sluice/run/machine.h"
#include "sluice/run/metrics_file.h"
#include "sluice/run/ranks.h"
#include "sluice/torch/train/trainer.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Each in a line; --json has all of it.
std::string preset_table() {
  std::vector<Json> rows;
  for (const Preset& preset : presets()) {
    TrainConfig c;
    apply_preset(c, preset.name);
    rows.push_back({{"name", preset.name},
                    {"model", c.model},
                    {"dataset", c.dataset},
                    {"batch", c.batch_size},
                    {"lr", fmt::format("{}", c.lr)},
                    {"epochs", c.epochs},
                    {"sparsifier", c.sparsifier},
                    {"density", fmt::format("{}", c.density)},
                    {"source", preset.source}});
  }
  std::vector<Column> columns = {{"name", "  preset", ""}};
  for (Json& row : rows) {
    row["name"] = "  " + row["name"].get<std::string>();
  }
  for (const char* key : {"model", "dataset"}) {
    columns.push_back({key, key, ""});
  }
  for (const char* key : {"batch", "lr", "epochs"}) {
    columns.push_back({key, key, "{}"});
  }
  columns.push_back({"sparsifier", "sparsifier", ""});
  columns.push_back({"density", "density", "{}"});
  columns.push_back({"source", "source", ""});
  return print_rows(rows,
                    {columns,
                     "batch: per worker; lr: with the sparsifier's momentum; "
                     "density: share of the entries that is sent; source: "
                     "docs/presets.md"},
                    Format::kTable);
}

constexpr Kind kKinds[] = {
    {"tasks", &task_descriptions},
    {"models", &model_descriptions},
    {"datasets", &dataset_descriptions},
    {"optimizers", &optimizer_descriptions},
    {"lr-schedules", &lr_schedule_descriptions},
    {"presets", &preset_descriptions, &preset_table},
};

// Set by a signal: the run should save itself and end.
std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> signals_seen = 0;

// The third signal ends the process at once: people press Ctrl-C twice, and a
// scheduler may send what mpirun sends as well.
void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) {
    stop_asked = true;
    if (++signals_seen < 3) return;
    signal(number, SIG_DFL);
    raise(number);
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  // What mpirun takes to ranks on other hosts, and schedulers send before the
  // end of a job.
  sigaction(SIGUSR1, &action, nullptr);
  // Whoever reads what a run says may leave before it ends.
  signal(SIGPIPE, SIG_IGN);
}

struct Options {
  std::vector<std::pair<std::string, std::string>> flags;  // as given
  std::string preset;
  std::string config_file;
  std::string resume;
  bool resumes = false;
  bool overwrite = false;
  bool json = false;
  bool check = false;
  bool print_config = false;
  std::string report = "end";
  LaunchOptions launch;
};

std::string read_text(const std::string& path) {
  const std::string problem = why_no_file(path);
  require(problem.empty(), "[train] --config must be a readable file, got '",
          path, "': ", problem);
  return read_text_file("train", path);
}

std::string flag_value(const Options& o, std::string_view name) {
  std::string value;
  for (const auto& [key, text] : o.flags) {
    if (key == name) value = text;
  }
  return value;
}

// The run folder that --resume means; empty if none.
std::string resumed_run(const Options& o) {
  if (!o.resumes) return {};
  if (o.resume.empty() || o.resume == "auto") return flag_value(o, "out");
  std::filesystem::path path = o.resume;
  if (!path.has_filename()) path = path.parent_path();
  const bool is_run = !std::filesystem::exists(path / "model.ckpt");
  return (is_run ? path : path.parent_path().parent_path()).string();
}

// What was not given by flags, as the configuration says.
void take_launch(const CLI::App& command, const TrainConfig& c,
                 LaunchOptions& launch) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (!given("--workers") && c.workers > 0 && !mpi_launched()) {
    launch.workers = c.workers;
  }
  if (!given("--engine") && !c.engine.empty()) launch.engine = c.engine;
  if (!given("--net") && !c.net.empty()) launch.net = c.net;
  if (!given("--timeout")) launch.timeout = c.timeout;
}

// Defaults, then the run that is resumed, then --preset, --config and flags.
TrainConfig configure(const CLI::App& command, Options& o) {
  TrainConfig config;
  const std::string run = resumed_run(o);
  const std::string before = run + "/config.json";
  if (!run.empty() && std::filesystem::exists(before)) {
    change_by_json(config, before, read_text(before));
  }
  if (!run.empty()) config.out = run;
  if (!o.preset.empty()) apply_preset(config, o.preset);
  if (!o.config_file.empty()) {
    change_by_json(config, o.config_file, read_text(o.config_file));
  }
  for (const auto& [name, text] : o.flags) {
    set_param(params_of(config), "train", name, text);
  }
  take_launch(command, config, o.launch);
  check_launch(o.launch);
  config.workers = static_cast<std::int64_t>(o.launch.ranks());
  config.engine = o.launch.engine;
  config.net = o.launch.net;
  config.timeout = o.launch.timeout;
  choose_recipe(config);
  choose_device(config);
  return config;
}

TrainOptions train_options(const Options& o, const TrainConfig& config) {
  TrainOptions options;
  options.overwrite = o.overwrite;
  options.lines_to_stderr = o.json;
  options.stop = &stop_asked;
  if (!o.resumes) return options;
  require(!config.out.empty(),
          "[train] --resume needs to know a run: --resume RUN, or --out RUN");
  options.resume = o.resume.empty() ? config.out : o.resume;
  return options;
}

std::string bytes_text(double bytes) {
  return bytes < 1e6 ? fmt::format("{:.1f} kB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

// Nobody is left to report to if the reader has gone.
void put_out(const std::string& text) {
  LineWriter out(STDOUT_FILENO);
  out.write(text);
  out.finish();
  ensure(out.problem().empty() || out.reader_is_gone(),
         "[train] the run is whole, and summary.json has what it came to, but "
         "standard output could not be written: ",
         out.problem());
}

std::string describe(const TrainSummary& s) {
  std::vector<Json> rows;
  const auto row = [&](const std::string& what, const std::string& value) {
    rows.push_back({{"what", what}, {"value", value}});
  };
  row("model", fmt::format("{}, {} parameters", s.model, s.parameters));
  row("workers", fmt::format("{}", s.ranks));
  row("steps", fmt::format("{} ({:.2f} epochs){}", s.steps, s.epochs,
                           s.stopped ? ", stopped by a signal" : ""));
  if (s.skipped > 0) row("steps skipped", fmt::format("{}", s.skipped));
  if (s.replaced > 0) {
    row("samples replaced", fmt::format("{}", s.replaced));
  }
  row("training loss", fmt::format("{:.4f}", s.loss));
  if (std::isnan(s.eval_loss)) {
    row("test scores", "not evaluated (--eval-every)");
  } else {
    row("test loss", fmt::format("{:.4f}", s.eval_loss));
    for (std::size_t i = 0; i < s.eval_scores.size(); ++i) {
      const auto& [kind, value] = s.eval_scores[i];
      row("test " + std::string(kind->label),
          kind->text(value) +
              (i == 0 ? concat(" (best ", kind->text(s.best_score), ")") : ""));
    }
  }
  row("time in steps", fmt::format("{:.2f} s", s.seconds));
  row(s.unit + "/s", fmt::format("{:.0f}", s.samples_per_s));
  row("step", fmt::format("{:.2f} ms", 1e3 * s.step_s));
  row("exposed communication",
      fmt::format("{:.2f} ms ({:.1f} %)", 1e3 * s.exposed_s,
                  s.step_s > 0 ? 100 * s.exposed_s / s.step_s : 0));
  row("sent per step and worker", bytes_text(s.bytes_per_step));
  row("density", fmt::format("{:.3f} %", 100 * s.density));
  row("k^/k", fmt::format("{:.3f}", s.k_hat_over_k));
  row("extra memory per worker",
      bytes_text(static_cast<double>(s.memory_bytes)));
  row("weights", fmt::format("{:016x}", s.weights));
  row("checkpoint", s.checkpoint);
  const std::string dense = dense_label(s.trained_dense);
  std::string text = dense.empty() ? "" : concat(dense, "\n");
  text += print_rows(
      rows,
      {{{"what", "summary", ""}, {"value", "", ""}},
       "exposed communication: waiting that backward does not hide; density: "
       "sent, of all entries; k^/k: entries selected over those asked for; "
       "weights: a hash, equal for equal bits"},
      Format::kTable);
  if (s.stopped) {
    text += fmt::format("go on with: sluice train --resume {}\n", s.folder);
  }
  return text;
}

// What runs, for who reads of it later.
std::string about_this() {
  Json about = {{"started", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                                        fmt::gmtime(std::time(nullptr)))},
                {"host", host_name()},
                {"processor", processor_name()},
                {"cores", std::thread::hardware_concurrency()},
                {"sluice", program_version()}};
  for (const BuildPart& part : build_parts()) about[part.name] = part.what;
  return about.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The page of the run: at its end, and before if it is to be live.
void write_page(const Options& o, const std::string& folder,
                Communicator& comm) {
  if (parse_report_mode("train", o.report) == ReportMode::kOff) return;
  std::string problem;
  comm.work_alone("writing report.html", std::chrono::minutes(1),
                  [&] { problem = write_report_page(folder, ""); });
  if (problem.empty()) return;
  fmt::print(stderr, "[train] the run is whole, but has no report.html: {}\n",
             problem);
}

void train(const Options& o, const TrainConfig& config, Communicator& comm) {
  const std::string note = recipe_note(config);
  if (comm.rank() == 0 && !note.empty()) {
    fmt::print(stderr, "[train] note: {}\n", note);
  }
  TrainSummary summary;
  std::unique_ptr<LiveReport> live;
  TrainOptions options = train_options(o, config);
  options.about = about_this();
  if (parse_report_mode("train", o.report) == ReportMode::kLive) {
    options.began = [&](const std::string& folder) {
      live = std::make_unique<LiveReport>(folder, "");
    };
  }
  try {
    summary = run_training(config, options, comm);
  } catch (const AgreedError& e) {
    if (comm.rank() == e.speaker()) throw;
    throw SpokenFor(e.what());
  }
  if (comm.rank() != 0) return;
  live.reset();
  write_page(o, summary.folder, comm);
  comm.work_alone("writing to standard output", std::chrono::minutes(1), [&] {
    put_out(o.json ? to_json(summary) : describe(summary));
  });
}

Reached reached_in(const std::string& run) {
  Reached at;
  at.saved = CheckpointStore::step_in(CheckpointStore::find(run));
  for (const MetricsLine& line : read_metrics(run + "/metrics.jsonl")) {
    at.done = std::max(at.done, line.step);
  }
  return at;
}

void prepare_recovery(Options& o, const TrainConfig& config) {
  Recovery& how = o.launch.recovery;
  if (!config.out.empty()) o.launch.lock = config.out + "/run.lock";
  if (how.on_failure == "stop") return;
  require(!config.out.empty(), "[train] --on-failure ", how.on_failure,
          " needs a run folder to go on from: --out RUN");
  how.reached = [run = config.out] { return reached_in(run); };
  how.more = {"--resume", "auto", "--out", config.out};
  how.without = {"--overwrite"};
}

// For --help, which begins with a capital.
std::string help_of(const Param& p) {
  std::string text(p.doc);
  text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

std::string type_of(const Param& p) {
  if (!p.choices.empty()) {
    return fmt::format("{{{}}}", fmt::join(p.choices, ","));
  }
  constexpr const char* kTypes[] = {"FLOAT", "INT", "{true,false}", "TEXT"};
  return kTypes[p.value.index()];
}

void add_flags(CLI::App& command, const std::shared_ptr<Options>& o) {
  TrainConfig defaults;
  for (const Param& p : params_of(defaults)) {
    const std::string name(p.name);
    // Those that add_launch_options adds.
    if (name == "workers") break;
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    command
        .add_option_function<std::string>(
            flag,
            [o, name](const std::string& text) {
              o->flags.emplace_back(name, text);
            },
            help_of(p))
        ->type_name(type_of(p))
        ->default_str(to_text(p));
  }
}

void group_flags(CLI::App& command) {
  group_options(command, "Model and data",
                {"--preset", "--config", "--model", "--dataset", "--data-dir",
                 "--init", "--batch-size", "--length"});
  group_options(command, "Training",
                {"--accumulate", "--epochs", "--max-steps", "--optimizer",
                 "--lr", "--lr-schedule", "--clip", "--clip-local",
                 "--clip-norm", "--precision", "--nonfinite", "--seed"});
  group_options(command, "What is sent",
                {"--sparsifier", "--density", "--density-schedule",
                 "--feedback", "--values", "--collective", "--dense-collective",
                 "--dense", "--no-feedback", "--dense-below", "--dense-rank"});
  group_options(command, "Plan",
                {"--plan", "--network", "--replan", "--costs",
                 "--machine-ranks", "--spare-cores", "--profile", "--study"});
  group_options(command, "Device",
                {"--device", "--tf32", "--channels-last", "--deterministic",
                 "--gpu-link", "--threads", "--data-threads", "--prefetch"});
  group_options(command, "Run folder",
                {"--out", "--resume", "--overwrite", "--checkpoint-every",
                 "--keep", "--write-timeout", "--eval-every", "--log-every",
                 "--replica-check", "--trace", "--report"});
}

}  // namespace

std::span<const Kind> training_kinds() { return kKinds; }
std::vector<BuildPart> training_parts() {
  return {{"torch", torch_library_version()},
          {"jpeg", built_in(reads_jpeg(), "reads JPEG, by libjpeg-turbo")},
          {"png", built_in(reads_png(), "reads PNG, by libpng")},
          {"sndfile", built_in(reads_sound_files(),
                               "reads WAV, FLAC and SPHERE, by libsndfile")}};
}

void add_train(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a network on several workers, with sparse gradients");
  add_flags(*command, o);
  command->add_option("--preset", o->preset,
                      "A published job, as in `sluice list presets`; --config "
                      "and flags win");
  command->add_option("--config", o->config_file,
                      "JSON file with the same names; flags win");
  CLI::Option* resume =
      command
          ->add_option("--resume", o->resume,
                       "Go on with a run (a folder; --out's unless given); "
                       "auto: or start it if there is none")
          ->expected(0, 1);
  command->add_flag("--overwrite", o->overwrite,
                    "Replace the run that is in --out");
  command->add_flag("--json", o->json, "Print the summary as JSON");
  command->add_flag("--check", o->check,
                    "Check the configuration and the data, then end");
  command->add_flag("--print-config", o->print_config,
                    "Print the configuration as JSON, for --config, then end");
  command
      ->add_option("--report", o->report,
                   "When report.html is written into the run folder: at the "
                   "end, again and again while it runs (live), or never (off)")
      ->capture_default_str();
  add_launch_options(*command, o->launch);
  add_recovery_options(*command, o->launch);
  group_flags(*command);
  add_examples(
      *command,
      {"sluice train --workers 2 --sparsifier adtopk --density 0.01 --out "
       "runs/a",
       "sluice train --preset vgg16-cifar10 --data-dir ~/cifar --workers 4 "
       "--check",
       "sluice train --resume runs/a --epochs 20"});
  // The last one wins, so that scripts can append.
  for (CLI::Option* option : command->get_options()) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  command->callback([o, command, resume] {
    o->resumes = resume->count() > 0;
    const TrainConfig config = configure(*command, *o);
    train_options(*o, config);
    parse_report_mode("train", o->report);
    // A configuration may be printed where its data are not.
    std::string found;
    if (o->check || !o->print_config) found = check_training(config);
    if (o->print_config) {
      fmt::print("{}", to_json(config));
    } else if (o->check) {
      fmt::print("{}", found);
    }
    if (o->check || o->print_config) return;
    stop_on_signals();
    prepare_recovery(*o, config);
    run_ranks(o->launch, [&](Communicator& comm) { train(*o, config, comm); });
  });
}

}  // namespace sluice
