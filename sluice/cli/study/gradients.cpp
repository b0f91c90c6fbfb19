#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/study/gradient_report.h"
#include "sluice/cli/study/studied_runs.h"
#include "sluice/core/error.h"
#include "sluice/study/gradient_study.h"
#include "sluice/study/npy.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Options {
  StudiedJob job;
  std::vector<std::string> files;
  std::string densities = "0.01,0.001";
  std::string rules;
  bool dump = false;
};

// A saved tensor and what its name says.
struct Saved {
  DumpName name;
  std::string path;
};

// Files as they are given, those of folders in the order of their names. A name
// that no study has given is that of a layer, at steps 1, 2, ...
std::vector<Saved> find_saved(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      paths.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.path().extension() == ".npy") {
        inside.push_back(entry.path().string());
      }
    }
    require(!inside.empty(), "[study] --npy must name .npy files or folders ",
            "that have some, got '", path, "' without any");
    std::sort(inside.begin(), inside.end());
    paths.insert(paths.end(), inside.begin(), inside.end());
  }
  std::vector<Saved> all;
  for (const std::string& path : paths) {
    Saved saved{{}, path};
    const fs::path file(path);
    if (!parse_dump_name(file.filename().string(), saved.name)) {
      saved.name = {file.stem().string(), all.size() + 1, "gradient"};
    }
    all.push_back(saved);
  }
  std::stable_sort(all.begin(), all.end(), [](const Saved& a, const Saved& b) {
    return a.name.step < b.name.step;
  });
  return all;
}

// Rules are tried on what a job selected from, where that was saved too.
bool is_input(const Saved& one, const std::vector<Saved>& all) {
  if (one.name.what == "input") return true;
  return std::none_of(all.begin(), all.end(), [&](const Saved& other) {
    return other.name.what == "input" && other.name.layer == one.name.layer &&
           other.name.step == one.name.step;
  });
}

std::vector<Json> study_files(const Options& o) {
  const std::vector<Saved> all = find_saved(o.files);
  const TrialPlan plan = make_trial_plan(spaced(o.rules), spaced(o.densities));
  std::map<std::pair<std::string, std::vector<std::size_t>>,
           std::pair<std::unique_ptr<TrialSpace>, LayerStudy>>
      layers;
  std::vector<Json> rows;
  for (const Saved& saved : all) {
    const NpyArray array = read_npy(saved.path);
    const auto key = std::pair(saved.name.layer, array.dims);
    auto at = layers.find(key);
    if (at == layers.end()) {
      auto space = std::make_unique<TrialSpace>(array.values.size());
      LayerStudy study(*space, {saved.name.layer, array.dims}, plan);
      at = layers.emplace(key, std::pair(std::move(space), std::move(study)))
               .first;
    }
    rows.push_back(at->second.second.look(saved.name.what, array.values,
                                          {saved.name.step - 1, 0, 0, 1},
                                          is_input(saved, all)));
  }
  return rows;
}

std::vector<Json> study_job(const Options& o, std::string& subtitle) {
  require(!o.job.out.empty(), "[study] --out must name a folder for what is ",
          "found, as in --out runs/study");
  const Json study = {{"name", "gradients"},
                      {"every", o.job.every},
                      {"layers", spaced(o.job.layers)},
                      {"least", o.job.least},
                      {"densities", spaced(o.densities)},
                      {"rules", spaced(o.rules)},
                      {"dump", o.dump}};
  const auto runs = run_studied(o.job, {}, 1, study);
  subtitle = fmt::format("{}, {}", describe_job(runs[0]), runs[0].method);
  return runs[0].rows;
}

void study_gradients(const Options& o) {
  require(o.files.empty() != !o.job.has_job(),
          "[study] gradients are those of a job (after --) or of files "
          "(--npy), got ",
          o.files.empty() ? "neither" : "both",
          "; as in sluice study gradients --out runs/s -- --model lenet");
  std::string subtitle;
  std::vector<Json> rows;
  if (o.files.empty()) {
    rows = study_job(o, subtitle);
    require(!rows.empty(), "[study] no step was looked at; use more steps or ",
            "a smaller --every than ", o.job.every);
  } else {
    rows = study_files(o);
    open_study_folder(o.job.out, o.job.overwrite);
    subtitle = fmt::format("{} saved tensors", rows.size());
  }
  const GradientReport report =
      report_gradients(rows, "laws of gradients", subtitle);
  write_study(o.job.out, report.study, report.files);
  fmt::print("{}", o.job.json ? to_json(report.study, {}).dump(1) + "\n"
                              : print_study(report.study));
}

}  // namespace

void add_study_gradients(CLI::App& study) {
  auto o = std::make_shared<Options>();
  CLI::App* command = study.add_subcommand(
      "gradients",
      "Histograms, fitted laws, and how well rules estimate, layer by layer");
  add_examples(*command,
               {"sluice study gradients --out runs/laws --every 20 --dump -- "
                "--model lenet --max-steps 300",
                "sluice study gradients --out runs/saved --npy "
                "runs/laws/runs/topk/gradients"});
  add_studied_job(*command, o->job);
  command
      ->add_option("--npy", o->files,
                   "Saved tensors instead of a job: files or folders")
      ->delimiter(',');
  command
      ->add_option("--densities", o->densities,
                   "That rules are tried at, joined by commas")
      ->capture_default_str();
  command->add_option("--rules", o->rules,
                      "To try, joined by commas; else all that estimate");
  command->add_flag("--dump", o->dump,
                    "Also write every tensor looked at as .npy");
  let_last_win(*command);
  command->callback([o] { study_gradients(*o); });
}

}  // namespace sluice
